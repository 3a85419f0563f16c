"""The time budget on the page: bars, heat map and tables, of every rank or of those that tell."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from statistics import median
from typing import Any

from traceweave.report.page import Column, Figure, Kind, Origin, Section, Table
from traceweave.report.query import Row
from traceweave.report.sections.budget import BREAKDOWN_COMMAND, Budget, part_column, share
from traceweave.report.selection import QUANTILES, Selection, outliers, select_ranks, spread
from traceweave.words import count, duration, folded, name_ranks, percent, plural

MAX_CELLS = 6_000
"""Ranks times steps above which the page keeps only the longest steps apart."""

MAX_ROWS = 128
"""Rows of the heat map; of more ranks, neighbours share a row."""

MAX_STEP_ROWS = 500
"""Rows of the table per rank and step."""

_PAIR: tuple[tuple[str, Kind], ...] = (("Time", "duration"), ("Share", "percent"))


def budget_section(budget: Budget, cpu: bool) -> Section:
    """Lay out the time budget: chart, heat map and tables."""
    unit = "step" if budget.has_steps else "recording"
    shown = select_ranks(budget.per_rank, _own)
    return Section(
        anchor="budget",
        title="Step time by rank" if budget.has_steps else "Time by rank",
        lead=(
            f"Every moment of a {unit} is one of these: the rank computes; it only waits for other"
            " ranks or transfers data; it only copies memory; or nothing runs."
        ),
        notes=_notes(budget, cpu),
        figures=_figures(budget, shown),
        tables=_tables(budget, shown),
        origins=(Origin("Time budget and overlap, per rank and step", BREAKDOWN_COMMAND),),
        empty=""
        if budget.rows
        else "No operation was recorded that a time budget could be made of.",
    )


def _own(row: Row) -> float:
    """Return the time per step in which the rank did not wait for others or talk to them."""
    return float(row["window_ns"] - row["exposed_comm_ns"]) / float(row["windows"])


def _notes(budget: Budget, cpu: bool) -> tuple[str, ...]:
    notes = [_window(budget, cpu), *_standing_out(budget)]
    if budget.left_out:
        notes.append(f"Left out, because they mark no steps: {name_ranks(list(budget.left_out))}.")
    kept = len(_kept_steps(budget))
    if kept < len(budget.steps):
        steps = plural(len(budget.steps), "step")
        notes.append(f"Of {steps}, the {kept} longest are shown one by one.")
    return tuple(notes)


def _standing_out(budget: Budget) -> Iterator[str]:
    """Say which ranks' own time is unlike the others'."""
    ranks = outliers(budget.per_rank, _own)
    if not ranks:
        return
    own = {row["rank"]: _own(row) for row in budget.per_rank}
    usual = median(own.values())
    told = [f"{duration(round(own[r]))} on rank {r} ({_off(own[r], usual)})" for r in ranks]
    yield (
        f"Without exposed communication, a rank's own time is {duration(round(usual))} at the"
        f" median; it stands out with {', '.join(told)}. Charts mark such ranks ▲."
    )


def _off(value: float, usual: float) -> str:
    return percent(value / usual - 1, signed=True)


def _window(budget: Budget, cpu: bool) -> str:
    work = "operator" if cpu else "GPU operation"
    if not budget.has_steps:
        return (
            f"The traces mark no steps, so a rank's whole recording, from its first {work} to the"
            " end of its last, counts as one step."
        )
    if cpu:
        return "A step is the range that the profiler marked on the host."
    text = (
        "A step runs from its first GPU operation to the first one of the next step; the last step"
        " ends with its last operation."
    )
    other = " The step time above is that of host ranges." if budget.is_by_host_ranges else ""
    return text + other


def _kept_steps(budget: Budget) -> list[int]:
    rows = min(len(budget.ranks), MAX_ROWS)
    keep = max(MAX_CELLS // max(rows, 1), 1)
    if len(budget.steps) <= keep:
        return budget.steps
    return sorted(sorted(budget.steps, key=lambda step: (-budget.lengths[step], step))[:keep])


def _figures(budget: Budget, shown: Selection) -> tuple[Figure, ...]:
    if not budget.rows:
        return ()
    per = "per step" if budget.has_steps else "whole recording"
    shares = ", ".join(f"{p.label} {percent(share(budget.total, p.key))}" for p in budget.parts)
    stacked = Figure(
        "budget",
        f"Time budget of {len(shown.rows)} of {plural(shown.ranks, 'rank')}"
        if shown.partial
        else "Time budget per rank",
        per,
        f"Stacked bar chart, one bar per rank. Over all ranks: {shares}. The table “Time budget"
        " per rank” holds the numbers.",
        _stack(budget, shown),
        height=360,
    )
    figures = [stacked]
    if shown.partial:
        figures.append(_spread_figure(budget, per))
    if len(budget.steps) > 1:
        figures.append(_heat_figure(budget))
    return tuple(figures)


def _spread_figure(budget: Budget, per: str) -> Figure:
    measures = (("window_ns", "Whole"), *((part.key, part.label) for part in budget.parts))
    spreads = [spread(round(r[key] / r["windows"]) for r in budget.per_rank) for key, _ in measures]
    return Figure(
        "budget-spread",
        f"Spread over all {plural(len(budget.ranks), 'rank')}",
        f"mean {per} of each rank",
        "Chart of the lowest, median, 95th percentile and highest value over the ranks, for the"
        " whole and each part. The heat map and the analysis breakdown hold every rank.",
        {
            "kind": "quantiles",
            "measure": "duration",
            "categories": [label for _, label in measures],
            "series": [{"label": label, "role": role} for label, role in QUANTILES],
            "variants": [{"label": "", "values": [list(v) for v in zip(*spreads, strict=True)]}],
        },
        height=90 + 36 * len(measures),
    )


def _heat_figure(budget: Budget) -> Figure:
    rows = _blocks(budget.ranks)
    merged = len(rows) < len(budget.ranks)
    return Figure(
        "budget-heat",
        "Every rank and step",
        "per step; the longest of the ranks in a row" if merged else "per step",
        "Heat map of ranks by steps. The table “Time budget per rank and step” holds the numbers.",
        _heat(budget, rows),
        height=min(160 + 22 * len(rows), 620),
    )


def _stack(budget: Budget, shown: Selection) -> dict[str, Any]:
    ranks = [row["rank"] for row in shown.rows]
    cells = {(r["rank"], r["step"]): r for r in budget.rows}
    keys = [part.key for part in budget.parts]
    means = [[round(r[key] / r["windows"]) for r in shown.rows] for key in keys]
    label = f"Mean of {plural(len(budget.steps), 'step')}" if budget.has_steps else ""
    variants: list[dict[str, Any]] = [{"label": label, "values": means}]
    if len(budget.steps) > 1:
        for step in _kept_steps(budget):
            found = [cells.get((rank, step)) for rank in ranks]
            values = [[r[key] if r else None for r in found] for key in keys]
            variants.append({"label": f"Step {step}", "values": values})
    return {
        "kind": "bars",
        "stacked": True,
        "axis": "Rank",
        "categories": [str(rank) for rank in ranks],
        "measure": "duration",
        "series": [{"label": part.label, "role": part.role} for part in budget.parts],
        "marked": [i for i, rank in enumerate(ranks) if rank in outliers(budget.per_rank, _own)],
        "variants": variants,
    }


def _blocks(ranks: list[int]) -> list[list[int]]:
    """Cut the ranks into neighbours that share a row of the heat map."""
    size = -(-len(ranks) // MAX_ROWS)
    return [ranks[start : start + size] for start in range(0, len(ranks), size)]


def _heat(budget: Budget, blocks: list[list[int]]) -> dict[str, Any]:
    cells = {
        (r["rank"], r["step"]): {**r, "own_ns": r["window_ns"] - r["exposed_comm_ns"]}
        for r in budget.rows
    }
    steps = _kept_steps(budget)
    marked = set(outliers(budget.per_rank, _own))

    def longest(block: list[int], step: int, key: str) -> int | None:
        found = [cells[rank, step][key] for rank in block if (rank, step) in cells]
        return max(found, default=None)

    return {
        "kind": "heat",
        "measure": "duration",
        "axis": "Step",
        "columns": [str(step) for step in steps],
        "rowAxis": "Rank",
        "rows": [folded(block) for block in blocks],
        "marked": [i for i, block in enumerate(blocks) if marked.intersection(block)],
        "variants": [
            {
                "label": label,
                # one colour for all communication: shades are amounts here
                "role": "exposed-comm"
                if role.startswith("exposed-") and role != "exposed-memory"
                else role,
                "values": [[longest(block, step, key) for step in steps] for block in blocks],
            }
            for key, label, role in (
                ("own_ns", "Own time: without exposed communication", "total"),
                ("window_ns", "Length", "total"),
                *(p[:3] for p in budget.parts),
            )
        ],
    }


def _tables(budget: Budget, shown: Selection) -> tuple[Table, ...]:
    if not budget.rows:
        return ()
    rows = []
    for r in shown.rows:
        pairs = ((round(r[p.key] / r["windows"]), share(r, p.key)) for p in budget.parts)
        mean = round(r["window_ns"] / r["windows"])
        rows.append((r["rank"], r["windows"], mean, *chain.from_iterable(pairs)))
    steps = "Steps" if budget.has_steps else "Windows"
    columns = (Column("Rank", "int"), Column(steps, "int"), Column("Length", "duration"))
    parts = [Column(label, kind, group=p.label) for p in budget.parts for label, kind in _PAIR]
    summary = Table(
        "budget",
        "Time budget per rank (mean)",
        (*columns, *parts),
        tuple(rows),
        note=shown.note("time without exposed communication", BREAKDOWN_COMMAND),
    )
    return (summary, _step_table(budget)) if len(budget.steps) > 1 else (summary,)


def _step_table(budget: Budget) -> Table:
    keys = ("step", "rank", "window_ns", *(part.key for part in budget.parts))
    longest = sorted(budget.rows, key=lambda r: (-r["window_ns"], r["step"], r["rank"]))
    rows = sorted(longest[:MAX_STEP_ROWS], key=lambda r: (r["step"], r["rank"]))
    note = f"The {MAX_STEP_ROWS} longest of {count(len(longest))}. All of them: {BREAKDOWN_COMMAND}"
    return Table(
        "budget-steps",
        "Time budget per rank and step",
        (
            Column("Step", "int"),
            Column("Rank", "int"),
            Column("Length", "duration"),
            *map(part_column, budget.parts),
        ),
        tuple(tuple(r[key] for key in keys) for r in rows),
        note=note if len(rows) < len(longest) else "",
        folded=True,
    )
