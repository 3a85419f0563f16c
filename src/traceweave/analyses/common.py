"""Public relations that are computed once for all questions: what ranks have in common, and of a
small run its events too.

These relations are views over views: DuckDB takes longer to read what they say than to compute
their rows, and a question such as `findings` reads them dozens of times. Where nothing can change
them, the first who reads one leaves its rows in a temporary table, behind a view of the relation's
name, through which nobody changes them. A batch of ranks is asked one question, and keeps nothing.
A connection to several databases keeps what it was asked of the last one.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import duckdb

from traceweave.analyses.batches import GROWING, RUN

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

MOST_EVENTS = 300_000
"""Events of the largest run whose events are kept, of all kinds: of more, to copy them all costs
more than to plan the few columns that a question reads."""

SIZE = f"""
SELECT
    {RUN},
    (SELECT count(*) FROM base.collective_calls),
    (SELECT coalesce(sum(events_stored), 0) FROM sources)
"""
"""Of the run that a connection is asked of: its name, calls of collectives and events."""

_OURS = """
SELECT 'VIEW ' || view_name FROM duckdb_views()
WHERE temporary AND (list_contains($kept, view_name) OR starts_with(view_name, 'tw_'))
UNION ALL
SELECT 'TABLE ' || table_name FROM duckdb_tables()
WHERE temporary AND starts_with(table_name, 'tw_')
"""

_asked: WeakKeyDictionary[duckdb.DuckDBPyConnection, int] = WeakKeyDictionary()
"""The database that each connection was asked of last."""


def are_few(relation: str, calls: int, events: int) -> bool:
    """Tell whether a run with so many calls of collectives, and events, keeps a relation's rows."""
    return events <= MOST_EVENTS if relation in GROWING else calls <= MOST_CALLS


def forget_others(con: duckdb.DuckDBPyConnection, database: int) -> None:
    """Drop what a connection keeps of another database that it was asked of, if there is one."""
    if _asked.setdefault(con, database) != database:
        forget(con)
        _asked[con] = database


def forget(con: duckdb.DuckDBPyConnection) -> None:
    """Drop all rows that a connection keeps."""
    for (ours,) in con.execute(_OURS, {"kept": KEPT}).fetchall():
        con.execute(f"DROP {ours}")
