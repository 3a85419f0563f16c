"""Public relations that are computed once for all questions: what ranks have in common, and of a
small run its events too.

These relations are views over views: DuckDB takes longer to read what they say than to compute
their rows, and a question such as `findings` reads them dozens of times. Where nothing can change
them, the first who reads one leaves its rows in a temporary table of the same name. A batch of
ranks is asked one question, and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from traceweave.analyses.batches import GROWING, is_batch
from traceweave.store.database import is_read_only
from traceweave.store.shards import LARGE

COMMON = (
    "clock_spans",
    "collective_instances",
    "collective_waits",
    "collectives",
    "communicators",
    "flight_calls",
    "flight_groups",
    "nccl_calls",
    "nccl_choices",
    "nccl_inspected",
    "ranks",
    "steps",
)
"""Public views that do not grow with the events of ranks, as those of batches.GROWING do."""

KEPT = (*COMMON, *GROWING)

MOST_CALLS = 1_000_000
"""Calls of collectives of the largest run for which it is done: rows have up to 150 bytes."""

MOST_EVENTS = 20_000
"""Events of the largest run whose events are kept, of all kinds: of more, to copy them all costs
more than to plan the few columns that a question reads."""

_CALLS = "SELECT current_database(), count(*) FROM base.collective_calls"
_EVENTS = "SELECT " + " + ".join(f"(SELECT count(*) FROM base.{table})" for table in LARGE)


def hold(con: duckdb.DuckDBPyConnection, relations: Iterable[str], made: set[str]) -> None:
    """Make tables of those of `relations` that are kept, where nothing changes them.

    `made` are the tables that are there; those that were asked for are added to it.
    """
    wanted = [name for name in KEPT if name in relations and name not in made]
    made.update(wanted)
    if not wanted or not is_read_only(con) or is_batch(con):
        return
    ((run, calls),) = con.execute(_CALLS).fetchall()
    growing = [name for name in wanted if name in GROWING]
    events = con.execute(_EVENTS).fetchall()[0][0] if growing else 0
    for name in wanted:
        if (events <= MOST_EVENTS) if name in growing else (calls <= MOST_CALLS):
            con.execute(f"CREATE TEMP TABLE IF NOT EXISTS {name} AS FROM {run}.main.{name}")
