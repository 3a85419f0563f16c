"""Where the time of a step goes: compute, waiting, transfer, copies, idle."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import duckdb

from traceweave.analyses import shared_rows
from traceweave.report.page import Column
from traceweave.report.query import Row, analysis_rows
from traceweave.words import duration, percent, plural


class BudgetPart(NamedTuple):
    """One of the things that a moment of a step can be."""

    key: str
    """Column of `breakdown`."""
    label: str
    role: str
    """What fixes its colour and pattern."""
    doing: str
    """What happens then, as a clause."""


PARTS = (
    BudgetPart("compute_ns", "Compute", "compute", "the rank computes"),
    BudgetPart(
        "exposed_wait_ns", "Exposed waiting", "exposed-wait", "it only waits for other ranks"
    ),
    BudgetPart("exposed_transfer_ns", "Exposed transfer", "exposed-comm", "it only transfers data"),
    BudgetPart(
        "exposed_unsplit_ns",
        "Waiting or transfer",
        "exposed-unsplit",
        "it only communicates, waiting or transfer, not known which",
    ),
    BudgetPart("exposed_memory_ns", "Exposed copies", "exposed-memory", "it only copies memory"),
    BudgetPart("idle_ns", "Idle", "idle", "nothing runs"),
)
"""Everything that a moment of a step can be, in the order in which it is shown."""


_ON_CPU = {
    "compute_ns": "the rank runs CPU operators",
    # what the host does beside them is not recorded
    "idle_ns": "neither an operator nor communication runs",
}


def part_column(part: BudgetPart, note: str = "") -> Column:
    """Return the column of a table that shows how long `part` takes."""
    label = part.label.removeprefix("Exposed ")
    exposed = "Exposed" if part.role.startswith("exposed-") else ""
    return Column(label[0].upper() + label[1:], "duration", note, group=exposed)


_SPLIT = ("exposed_wait_ns", "exposed_transfer_ns")
_UNSPLIT = "exposed_unsplit_ns"
_SUMMED = (
    *("window_ns", "comm_ns", "memory_ns", "overlap_ns", "exposed_comm_ns"),
    *(part.key for part in PARTS),
)
BREAKDOWN_COMMAND = "traceweave analyze breakdown run.duckdb"


@dataclass(frozen=True)
class Budget:
    """Rows of analysis breakdown per rank and step; without steps, one per rank, step NULL."""

    rows: list[Row]
    left_out: tuple[int, ...] = ()
    """Ranks without steps in a run that has steps: their whole span compares with no step."""
    steady: Row | None = None
    """How long the steps are, as `health` has it; None without steps."""
    lengths: dict[int, int] = field(default_factory=dict)
    """How long each step is, ns, as the analysis steps has it."""

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
    def parts(self) -> tuple[BudgetPart, ...]:
        """What the run has of PARTS: waiting and transfer apart, or what cannot be told apart."""
        if not self.total[_UNSPLIT]:
            return tuple(part for part in PARTS if part.key != _UNSPLIT)
        if not any(self.total[key] for key in _SPLIT):
            return tuple(part for part in PARTS if part.key not in _SPLIT)
        return PARTS

    @property
    def exposed_parts(self) -> tuple[BudgetPart, ...]:
        """Those in which the rank only communicates."""
        return tuple(part for part in self.parts if part.key in (*_SPLIT, _UNSPLIT))

    @property
    def tells_waiting(self) -> bool:
        """Whether waiting is told from transfer anywhere, or there is nothing to tell."""
        return any(part.key in _SPLIT for part in self.parts)

    @property
    def is_by_host_ranges(self) -> bool:
        """Whether a step's length is its range on the host, though it has a window on the GPU."""
        steady = self.steady
        return bool(steady and steady["source"] == "host" and steady["device_min_ns"] is not None)

    @property
    def length_ns(self) -> int:
        """Length of a step, or of a recording: the mean."""
        if self.steady is not None:
            return round(float(self.steady["mean_ns"]))
        return round(self.total["window_ns"] / len(self.rows)) if self.rows else 0


def load_budget(con: duckdb.DuckDBPyConnection) -> Budget:
    """Read the breakdown of every step; of the whole recording if the traces mark no steps."""
    rows = [r for r in analysis_rows(con, "breakdown") if r["window_ns"]]
    stepped = [r for r in rows if r["step"] is not None]
    lengths = {row["step"]: row["length_ns"] for row in analysis_rows(con, "steps")}
    if not stepped:
        return Budget(rows, lengths=lengths)
    left_out = {r["rank"] for r in rows} - {r["rank"] for r in stepped}
    steady = shared_rows(con, "steadiness").to_arrow_table().to_pylist()
    return Budget(stepped, tuple(sorted(left_out)), next(iter(steady), None), lengths)


def share(row: Row, key: str) -> float | None:
    """Return the share of the windows that `key` takes; NULL if there is no time to share."""
    return row[key] / row["window_ns"] if row["window_ns"] else None


def budget_in_words(budget: Budget, cpu: bool) -> str:
    """Say in a few sentences how long a step takes and how its time divides."""
    if not budget.rows:
        return ""
    total = budget.total
    clauses = [
        f"{'for' if i else 'For'} {percent(share(total, part.key))}{'' if i else ' of the time'}"
        f" {_ON_CPU.get(part.key, part.doing) if cpu else part.doing}"
        for i, part in enumerate(part for part in budget.parts if total[part.key])
    ]
    text = f"{_length_in_words(budget)} {_listed(clauses)}."
    if total["hidden"] == 0:
        text += " None of the communication time hides behind compute."
    elif total["hidden"] is not None:
        text += f" {percent(total['hidden'])} of the communication time hides behind compute."
    return text


def _length_in_words(budget: Budget) -> str:
    ranks = plural(len(budget.ranks), "rank")
    if not budget.has_steps:
        return f"A recording lasts {duration(budget.length_ns)} on average ({ranks})."
    usual = " on average" if len(budget.steps) > 1 else ""
    text = (
        f"A step takes {duration(budget.length_ns)}{usual} ({ranks},"
        f" {plural(len(budget.steps), 'step')}"
    )
    steady = budget.steady
    if steady is not None and steady["inferred_from"]:
        text += f", inferred from {steady['inferred_from']}, as no range marks them"
    if steady is None or not budget.is_by_host_ranges:
        return f"{text})."
    least, most = (duration(steady[f"device_{end}_ns"]) for end in ("min", "max"))
    return f"{text}; by host ranges, as GPU windows vary from {least} to {most})."


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
