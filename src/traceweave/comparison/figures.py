"""What the page of a comparison draws: the steps of both runs, and the way from base to new."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from traceweave.comparison.side import Side, unit_of
from traceweave.report.page import Figure, bars, chart_labels
from traceweave.words import count, duration, plural

MOST_BARS = 15
"""Kernels that a chart shows."""


def step_figure(base: Side, new: Side) -> Figure:
    """Draw the time of every step that counts, in its order and as a distribution."""
    sides = (base, new)
    counts = " and ".join(plural(side.count, side.unit) for side in sides)
    unit = unit_of(base, new)
    return Figure(
        "steps",
        f"Every {unit} of both runs",
        "mean of the ranks; left in their order, right their spread",
        f"Chart of {counts} as points, and as boxes: the middle half of them, the median, the"
        " shortest and the longest. The table below holds the numbers.",
        {
            "kind": "samples",
            "axis": unit,
            "measure": "duration",
            "series": [
                {"label": "Base", "role": "p50", "steps": _numbers(base)},
                {"label": "New", "role": "p99", "steps": _numbers(new)},
            ],
            "variants": [
                {
                    "label": "",
                    "values": [[round(ns) for ns in side.per_rank("window_ns")] for side in sides],
                }
            ],
        },
        height=320,
    )


def _numbers(side: Side) -> list[str]:
    return ["recording"] if side.steps is None else [f"step {step}" for step in side.steps]


def waterfall_figure(rows: list[dict[str, Any]]) -> Figure:
    """Draw how the parts of `rows`, of the table budget, lead from the base's step to the new."""
    *parts, whole = rows
    changed = [row for row in parts if row["difference_ns"]]
    ends = list(accumulate((r["difference_ns"] for r in changed), initial=whole["base_ns"]))
    bars = [
        ("Base", 0, whole["base_ns"], "total"),
        *(
            (row["part"], start, end, "caused" if end > start else "hidden")
            for row, start, end in zip(changed, ends, ends[1:], strict=False)
        ),
        ("New", 0, whole["new_ns"], "total"),
    ]
    label, start, end, role = (list(column) for column in zip(*bars, strict=True))
    change = duration(whole["difference_ns"], signed=True)
    return Figure(
        "budget",
        "From base to new",
        f"per {whole['part']} and rank; parts add up to {change}",
        "Waterfall chart: the step of the base, what each part adds or takes, and the step of the"
        " new run. The table below holds the numbers.",
        {
            "kind": "waterfall",
            "measure": "duration",
            "categories": label,
            "roles": role,
            "series": [],
            "variants": [{"label": "", "values": [start, end]}],
        },
        height=90 + 30 * len(bars),
    )


def change_figure(
    name: str, title: str, rows: list[dict[str, Any]], unit: str
) -> tuple[Figure, ...]:
    """Draw what changed most of the items of a table, per `unit`; nothing if there are none."""
    shown = rows[:MOST_BARS]
    if not shown:
        return ()
    chart = bars(
        chart_labels(str(row["item"]) for row in shown),
        ("Difference", "caused", [row["difference_ns"] for row in shown]),
        roles=["caused" if row["difference_ns"] > 0 else "hidden" for row in shown],
    )
    text = f"Bar chart of differences; the table “{title}” holds the numbers."
    unit = f"per {unit} and rank"
    if len(rows) > len(shown):
        unit += f"; {count(len(shown))} of {count(len(rows))} shown"
    return (
        Figure(name, "Difference, new minus base", unit, text, chart, height=80 + 30 * len(shown)),
    )
