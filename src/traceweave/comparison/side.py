"""One of the two runs: which of its steps count, and what the ranks did in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.analyses import analysis_relation
from traceweave.analyses.common import MOST_EVENTS
from traceweave.comparison.statistics import FEWEST, Values
from traceweave.errors import InputError
from traceweave.vocabulary import script

_Part = tuple[int, int | None, str, int]
"""Rank, step, part of the step and its time, ns: a row of ranks.sql and idle.sql."""


@dataclass(frozen=True)
class Side:
    """A run as the comparison sees it. Arrays have one value per kept step, in their order."""

    name: str
    con: duckdb.DuckDBPyConnection
    ranks: int
    """Ranks with work, whose mean the numbers are."""
    ranks_without_work: int
    """Ranks without any: in a GPU run, those that recorded no GPU work."""
    window: str
    """What steps are measured by, a parameter of breakdown: 'device' or 'host'."""
    steps: tuple[int, ...] | None
    """Steps that count; None: the traces mark none, and the recording counts as one."""
    left_out: tuple[tuple[int, str], ...]
    """Steps that do not count, and why."""
    totals: dict[str, Values]
    """Columns of steps.sql."""
    idle: dict[str, Values]
    """Idle time by cause, summed over the ranks, ns."""
    of_rank: dict[str, dict[int, float]]
    """Columns of ranks.sql and causes of idling by rank, means over the steps that count, ns."""

    @property
    def count(self) -> int:
        """Steps that count; 1 for a recording without steps."""
        return 1 if self.steps is None else len(self.steps)

    @property
    def unit(self) -> str:
        """What one sample is."""
        return "recording" if self.steps is None else "step"

    def per_rank(self, column: str) -> Values:
        """Return a column of steps.sql as the mean over the ranks, one value per step, ns."""
        return self.totals[column] / self.ranks


def unit_of(base: Side, new: Side) -> str:
    """Return what one sample of both is."""
    return base.unit if base.unit == new.unit else "step or recording"


class Steps(NamedTuple):
    """Which steps of a run count."""

    window: str
    """What they are measured by, a parameter of breakdown: 'device' or 'host'."""
    kept: tuple[int, ...] | None
    """None: the traces mark none."""
    left_out: tuple[tuple[int, str], ...]
    """Steps that do not count, and why."""
    rows: pa.Table
    """Rows of steps.sql for those that count, or for the whole recording."""


def read_steps(con: duckdb.DuckDBPyConnection, name: str, warmup: int) -> Steps:
    """Choose the steps of a run that count; the `warmup` first ones do not.

    Raises InputError for a run without any work.
    """
    window = _window(con)
    rows = ask(con, "breakdown", "steps", window=window)
    if not len(rows):
        raise InputError(f"{name}: no work was recorded that could be compared")
    if not any(step is not None for step in rows["step"].to_pylist()):
        return Steps(window, None, (), rows)
    rows = rows.filter(rows["step"].is_valid())
    kept, left_out = choose_steps(rows, warmup, window)
    rows = rows.filter(pc.is_in(rows["step"], value_set=pa.array(kept, pa.int64())))
    return Steps(window, kept, left_out, rows)


def ask_budget(con: duckdb.DuckDBPyConnection) -> None:
    """Ask a small run the two questions that take longest of those that compare it; of a large one
    they take as long as all that the verdict asks.
    """
    ((events,),) = con.execute("SELECT coalesce(sum(events_stored), 0) FROM sources").fetchall()
    if events > MOST_EVENTS:
        return
    window = _window(con)
    for analysis in ("breakdown", "idle_causes"):
        analysis_relation(con, analysis, window=window)


def _window(con: duckdb.DuckDBPyConnection) -> str:
    """Return the windows in which steps have the length that the analysis steps gives them."""
    steps = con.table(f"temp.{analysis_relation(con, 'steps')}")
    by_host = steps.filter("device_ranks > 0 AND length_source = 'host'").count("*").fetchall()
    return "device" if by_host == [(0,)] else "host"


def load_side(con: duckdb.DuckDBPyConnection, name: str, steps: Steps) -> Side:
    """Read the time budget of every step that counts."""
    window, kept, left_out, rows = steps
    totals = {
        name: np.asarray(rows[name], dtype=np.float64)
        for name in rows.schema.names
        if name not in ("step", "gpu")
    }
    ranks = int(totals["ranks"].max(initial=0))
    counted: tuple[int | None, ...] = (None,) if kept is None else kept
    idle_rows = _counted(ask(con, "idle_causes", "idle", window=window), counted)
    idle = _idle_by_cause(idle_rows, counted)
    times = _counted(ask(con, "breakdown", "ranks", window=window), counted)
    of_rank = _by_rank([*times, *idle_rows], len(counted))
    [(without_work,)] = con.execute(
        "SELECT count(*) FROM ranks WHERE rank NOT IN (SELECT rank FROM device_ops)"
    ).fetchall()
    return Side(name, con, ranks, without_work, window, kept, left_out, totals, idle, of_rank)


def choose_steps(
    rows: pa.Table, warmup: int, window: str = "device"
) -> tuple[tuple[int, ...], tuple[tuple[int, str], ...]]:
    """Return the steps that count, and those that do not with the reason.

    Steps that not every rank recorded never count. The first `warmup` ones do not, then the last
    one of a GPU run, whose device window ends with its last op instead of the next step's first;
    both only as long as FEWEST steps remain.
    """
    most = max(rows["ranks"].to_pylist())
    kept: list[int] = []
    left_out: list[tuple[int, str]] = []
    for step, ranks in zip(rows["step"].to_pylist(), rows["ranks"].to_pylist(), strict=True):
        if ranks == most:
            kept.append(step)
        else:
            left_out.append((step, "not recorded by every rank"))
    first = max(min(warmup, len(kept) - FEWEST), 0)
    left_out += [(step, "warm-up") for step in kept[:first]]
    kept = kept[first:]
    is_open = window == "device" and rows["gpu"][-1].as_py()
    if is_open and kept[-1] == rows["step"][-1].as_py() and len(kept) > FEWEST:
        left_out.append((kept.pop(), "last recorded: its window ends with its last op"))
    return tuple(kept), tuple(sorted(left_out))


def ask(con: duckdb.DuckDBPyConnection, analysis: str, name: str, **params: object) -> pa.Table:
    """Return what queries/`name`.sql makes of the rows of an analysis, computed once for all."""
    table = analysis_relation(con, analysis, **params)
    relation = con.table(f"temp.{table}").query("rows", query(name))
    assert relation is not None  # only a statement that gives no rows is None
    return relation.to_arrow_table()


def query(name: str) -> str:
    """Return the SQL of queries/`name`.sql."""
    return script(__package__, f"queries/{name}.sql")


def _counted(rows: pa.Table, steps: Sequence[int | None]) -> list[_Part]:
    """Return the rows of ranks.sql or idle.sql that are of the steps that count."""
    of = set(steps)
    columns = (rows[name].to_pylist() for name in ("rank", "step", "part", "time_ns"))
    return [row for row in zip(*columns, strict=True) if row[1] in of]


def _idle_by_cause(rows: Sequence[_Part], steps: Sequence[int | None]) -> dict[str, Values]:
    """Return the idle time of the steps by cause, summed over the ranks, ns."""
    order = {step: place for place, step in enumerate(steps)}
    causes: dict[str, Values] = {}
    for _, step, cause, time_ns in rows:
        causes.setdefault(cause, np.zeros(len(steps)))[order[step]] += time_ns
    return causes


def _by_rank(rows: Sequence[_Part], steps: int) -> dict[str, dict[int, float]]:
    """Return for each part of the step what it takes on the ranks that have it, mean over so many
    steps, ns."""
    found: dict[str, dict[int, float]] = {}
    for rank, _, part, time_ns in rows:
        of = found.setdefault(part, {})
        of[rank] = of.get(rank, 0.0) + time_ns / steps
    return found
