"""Where the time of a step goes: compute, exposed communication, exposed memory, idle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import Any

import duckdb

from traceweave.report.page import Column, Figure, Kind, Origin, Section, Table
from traceweave.report.quantities import duration, percent, plural, rank_list
from traceweave.report.query import Row, analysis_rows

MAX_CELLS = 6_000
"""Ranks times steps above which the page keeps only the slowest steps apart."""

PARTS = (
    ("compute_ns", "Compute", "compute"),
    ("exposed_comm_ns", "Exposed communication", "exposed-comm"),
    ("exposed_memory_ns", "Exposed memory", "exposed-memory"),
    ("idle_ns", "Idle", "idle"),
)
"""Column of `breakdown`, its name on the page, and the role that fixes its colour."""

_SUMMED = ("window_ns", "comm_ns", "memory_ns", "overlap_ns", *(key for key, _, _ in PARTS))
_PAIR: tuple[tuple[str, Kind], ...] = (("Time", "duration"), ("Share", "percent"))
BREAKDOWN_COMMAND = "traceweave analyze breakdown run.duckdb"


@dataclass(frozen=True)
class Budget:
    """Rows of analysis breakdown per rank and step; without steps, one per rank, step NULL."""

    rows: list[Row]
    left_out: tuple[int, ...] = ()
    """Ranks without steps in a run that has steps: their whole span compares with no step."""

    @property
    def has_steps(self) -> bool:
        """Whether the windows are training steps, and not whole recordings."""
        return any(r["step"] is not None for r in self.rows)

    @property
    def steps(self) -> list[int]:
        """Step numbers, ascending."""
        return sorted({r["step"] for r in self.rows if r["step"] is not None})

    @property
    def ranks(self) -> list[int]:
        """Ranks, ascending."""
        return sorted({r["rank"] for r in self.rows})

    @property
    def total(self) -> Row:
        """Sums over all ranks and steps."""
        return _sum(self.rows)

    @property
    def per_rank(self) -> list[Row]:
        """Sums over the steps of each rank, with `windows`, the number of steps summed."""
        by_rank: defaultdict[int, list[Row]] = defaultdict(list)
        for row in self.rows:
            by_rank[row["rank"]].append(row)
        return [{"rank": rank, **_sum(by_rank[rank])} for rank in sorted(by_rank)]

    @property
    def mean_window_ns(self) -> int:
        """Mean length of a window over ranks and steps."""
        return round(self.total["window_ns"] / len(self.rows)) if self.rows else 0


def load_budget(con: duckdb.DuckDBPyConnection) -> Budget:
    """Read the breakdown of every step; of the whole recording if the traces mark no steps."""
    rows = [r for r in analysis_rows(con, "breakdown") if r["window_ns"]]
    stepped = [r for r in rows if r["step"] is not None]
    if not stepped:
        return Budget(rows)
    left_out = {r["rank"] for r in rows} - {r["rank"] for r in stepped}
    return Budget(stepped, tuple(sorted(left_out)))


def share(row: Row, key: str) -> float | None:
    """Return the share of the windows that `key` takes; NULL if there is no time to share."""
    return row[key] / row["window_ns"] if row["window_ns"] else None


def budget_in_words(budget: Budget, cpu: bool) -> str:
    """Say in two sentences how a step's time divides."""
    if not budget.rows:
        return ""
    total = budget.total
    what = "step" if budget.has_steps else "recording"
    doing = (
        "the rank runs CPU operators" if cpu else "the rank computes",
        "it only communicates",
        "it only copies memory",
        "nothing runs",
    )
    clauses = [
        f"for {percent(share(total, key))} {clause}"
        for (key, _, _), clause in zip(PARTS, doing, strict=True)
        if total[key]
    ]
    steps = f", {plural(len(budget.steps), 'step')}" if budget.has_steps else ""
    text = (
        f"A {what} lasts {duration(budget.mean_window_ns)} on average"
        f" ({plural(len(budget.ranks), 'rank')}{steps}), of which {_listed(clauses)}."
    )
    if total["hidden"] == 0:
        text += " None of the communication time hides behind compute."
    elif total["hidden"] is not None:
        text += f" {percent(total['hidden'])} of the communication time hides behind compute."
    return text


def _listed(clauses: list[str]) -> str:
    return " and ".join([", ".join(clauses[:-1]), clauses[-1]] if len(clauses) > 1 else clauses)


def budget_section(budget: Budget, cpu: bool) -> Section:
    """Lay out the time budget: chart, heat map and tables."""
    unit = "step" if budget.has_steps else "recording"
    notes = [_window(budget, cpu)]
    if budget.left_out:
        notes.append(
            f"Left out, because they mark no steps: ranks {rank_list(list(budget.left_out))}."
        )
    if _too_many(budget):
        kept = len(_kept_steps(budget))
        notes.append(
            f"Charts keep the {plural(kept, 'slowest step')} of {len(budget.steps)} apart."
        )
    return Section(
        anchor="budget",
        title="Step time by rank" if budget.has_steps else "Time by rank",
        lead=(
            f"Every moment of a {unit} is one of four things: the rank computes; it only"
            " communicates; it only copies memory; or nothing runs."
        ),
        notes=tuple(notes),
        figures=_figures(budget),
        tables=_tables(budget),
        origins=(Origin("Time budget and overlap, per rank and step", BREAKDOWN_COMMAND),),
        empty=""
        if budget.rows
        else "No operation was recorded that a time budget could be made of.",
    )


def _window(budget: Budget, cpu: bool) -> str:
    work = "operator" if cpu else "GPU operation"
    if not budget.has_steps:
        return (
            f"The traces mark no steps, so a rank's whole recording, from its first {work} to the"
            " end of its last, stands as one."
        )
    if cpu:
        return "A step is the range that the profiler marked on the host."
    return (
        "A step runs from its first GPU operation to the first one of the next step; the last step"
        " ends with its last operation."
    )


def _sum(rows: list[Row]) -> Row:
    total: Row = {key: sum(r[key] or 0 for r in rows) for key in _SUMMED}
    saved = sum(min(r["compute_ns"] or 0, r["comm_ns"] or 0) for r in rows)
    return {
        **total,
        "windows": len(rows),
        "hidden": total["overlap_ns"] / total["comm_ns"] if total["comm_ns"] else None,
        "efficiency": total["overlap_ns"] / saved if saved else None,
    }


def _too_many(budget: Budget) -> bool:
    return len(budget.rows) > MAX_CELLS


def _kept_steps(budget: Budget) -> list[int]:
    if not _too_many(budget):
        return budget.steps
    longest: defaultdict[int, int] = defaultdict(int)
    for row in budget.rows:
        longest[row["step"]] = max(longest[row["step"]], row["window_ns"])
    keep = max(MAX_CELLS // len(budget.ranks), 1)
    return sorted(sorted(longest, key=lambda step: (-longest[step], step))[:keep])


def _figures(budget: Budget) -> tuple[Figure, ...]:
    if not budget.rows:
        return ()
    total = budget.total
    shares = ", ".join(f"{label} {percent(share(total, key))}" for key, label, _ in PARTS)
    stacked = Figure(
        "budget",
        "Time budget per rank",
        "per step" if budget.has_steps else "whole recording",
        f"Stacked bar chart, one bar per rank. Over all ranks: {shares}. The table “Time budget"
        " per rank” holds the numbers.",
        _stack(budget),
        height=360,
    )
    if len(budget.steps) < 2:
        return (stacked,)
    heat = Figure(
        "budget-heat",
        "Every rank and step",
        "per step",
        "Heat map of ranks by steps. The table “Time budget per rank and step” holds the numbers.",
        _heat(budget),
        height=min(160 + 22 * len(budget.ranks), 620),
    )
    return (stacked, heat)


def _stack(budget: Budget) -> dict[str, Any]:
    ranks = budget.ranks
    cells = {(r["rank"], r["step"]): r for r in budget.rows}
    means = [[round(r[key] / r["windows"]) for r in budget.per_rank] for key, _, _ in PARTS]
    label = f"Mean of {plural(len(budget.steps), 'step')}" if budget.has_steps else ""
    variants: list[dict[str, Any]] = [{"label": label, "values": means}]
    if len(budget.steps) > 1:
        for step in _kept_steps(budget):
            found = [cells.get((rank, step)) for rank in ranks]
            values = [[r[key] if r else None for r in found] for key, _, _ in PARTS]
            variants.append({"label": f"Step {step}", "values": values})
    return {
        "kind": "bars",
        "stacked": True,
        "axis": "Rank",
        "categories": [str(rank) for rank in ranks],
        "measure": "duration",
        "series": [{"label": name, "role": role} for _, name, role in PARTS],
        "variants": variants,
    }


def _heat(budget: Budget) -> dict[str, Any]:
    cells = {(r["rank"], r["step"]): r for r in budget.rows}
    steps = _kept_steps(budget)
    shown = (("window_ns", "Step time", "total"), *PARTS)
    return {
        "kind": "heat",
        "measure": "duration",
        "axis": "Step",
        "columns": [str(step) for step in steps],
        "rowAxis": "Rank",
        "rows": [str(rank) for rank in budget.ranks],
        "variants": [
            {
                "label": label,
                "role": role,
                "values": [
                    [cells[rank, step][key] if (rank, step) in cells else None for step in steps]
                    for rank in budget.ranks
                ],
            }
            for key, label, role in shown
        ],
    }


def _tables(budget: Budget) -> tuple[Table, ...]:
    if not budget.rows:
        return ()
    rows = []
    for r in budget.per_rank:
        pairs = ((round(r[key] / r["windows"]), share(r, key)) for key, _, _ in PARTS)
        mean = round(r["window_ns"] / r["windows"])
        rows.append((r["rank"], r["windows"], mean, *chain.from_iterable(pairs)))
    steps = "Steps" if budget.has_steps else "Windows"
    columns = (Column("Rank", "int"), Column(steps, "int"), Column("Length", "duration"))
    parts = [Column(label, kind, group=name) for _, name, _ in PARTS for label, kind in _PAIR]
    summary = Table("budget", "Time budget per rank (mean)", (*columns, *parts), tuple(rows))
    return (summary, _step_table(budget)) if len(budget.steps) > 1 else (summary,)


def _step_table(budget: Budget) -> Table:
    kept = set(_kept_steps(budget))
    rows = [r for r in budget.rows if r["step"] in kept]
    rows.sort(key=lambda r: (r["step"], r["rank"]))
    keys = ("step", "rank", "window_ns", *(key for key, _, _ in PARTS))
    return Table(
        "budget-steps",
        "Time budget per rank and step",
        (
            Column("Step", "int"),
            Column("Rank", "int"),
            Column("Length", "duration"),
            *(Column(name, "duration") for _, name, _ in PARTS),
        ),
        tuple(tuple(r[key] for key in keys) for r in rows),
        folded=True,
    )
