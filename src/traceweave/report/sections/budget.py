"""Where the time of a step goes: compute, exposed communication, exposed memory, idle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import duckdb

from traceweave.report.query import Row, analysis_rows
from traceweave.words import duration, percent, plural

PARTS = (
    ("compute_ns", "Compute", "compute"),
    ("exposed_comm_ns", "Exposed communication", "exposed-comm"),
    ("exposed_memory_ns", "Exposed memory", "exposed-memory"),
    ("idle_ns", "Idle", "idle"),
)
"""Column of `breakdown`, its name on the page, and the role that fixes its colour."""

_SUMMED = ("window_ns", "comm_ns", "memory_ns", "overlap_ns", *(key for key, _, _ in PARTS))
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

    @cached_property
    def total(self) -> Row:
        """Sums over all ranks and steps."""
        return _sum(self.rows)

    @cached_property
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


def _sum(rows: list[Row]) -> Row:
    total: Row = {key: sum(r[key] or 0 for r in rows) for key in _SUMMED}
    saved = sum(min(r["compute_ns"] or 0, r["comm_ns"] or 0) for r in rows)
    return {
        **total,
        "windows": len(rows),
        "hidden": total["overlap_ns"] / total["comm_ns"] if total["comm_ns"] else None,
        "efficiency": total["overlap_ns"] / saved if saved else None,
    }
