"""One question that a connection is asked: what is there for it, and what has no rows.

Most rules have nothing to say of most runs, and to plan a statement takes DuckDB longer than to
compute the few rows of a small run. A line `-- needs: collectives, ref('late_causes')` in a header
names relations and rows of other statements without any of which the statement has no rows; a test
proves each from its SQL. Where one has none, the statement is not planned, nor what it starts from.
"""

from __future__ import annotations

from collections.abc import Iterable

import duckdb

from traceweave.analyses.batches import is_batch
from traceweave.analyses.common import KEPT, SIZE, are_few, forget_others
from traceweave.analyses.statements import Statement
from traceweave.analyses.stored import stored
from traceweave.errors import QueryError
from traceweave.store.database import asked_of
from traceweave.store.schema import no_rows, public_relations

_THERE = """
SELECT
    CASE WHEN temporary THEN table_name ELSE schema_name || '.' || table_name END,
    temporary, estimated_size = 0
FROM duckdb_tables() WHERE temporary OR (database_name = current_database() AND estimated_size = 0)
UNION ALL
SELECT view_name, TRUE, FALSE FROM duckdb_views() WHERE temporary
"""
"""Temporary tables and views, and tables without rows: none has more than its estimated size."""

ROWS_OF = {
    "collective_instances": "base.collective_calls",
    "collective_waits": "base.collective_calls",
    "collectives": "base.collective_calls",
    "communicators": "base.nccl_communicators",
    "counters": "base.counters",
    "flight_calls": "base.flight_calls",
    "flight_groups": "base.flight_groups",
    "gpu_ops": "base.gpu_ops",
    "groups": "main.groups",
    "host_ops": "base.host_ops",
    "ingest_issues": "main.ingest_issues",
    "memory_events": "base.memory_events",
    "nccl_calls": "base.nccl_calls",
    "nccl_choices": "base.nccl_choices",
    "nccl_inspected": "base.nccl_inspected",
    "other_events": "base.other_events",
    "recording": "main.recording",
    "steps": "base.steps",
}
"""The table without whose rows a public relation has none."""


class Question:
    """What is there for one question."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        """Begin with what is there and still holds: nothing where the database can change.

        Raises QueryError in a transaction.
        """
        _refuse_transaction(con)
        database, is_unchanging = asked_of(con)
        forget_others(con, database)
        there = con.execute(_THERE).fetchall()
        empty = {name for name, _, is_empty in there if is_empty}
        self.made: set[str] = set()
        """The tables, views, macros and functions that are there."""
        self.empty = {relation for relation, table in ROWS_OF.items() if table in empty}
        """Those of them, and relations, that have no rows."""
        if is_unchanging:
            self.made = {name for name, is_temporary, _ in there if is_temporary}
            self.empty |= empty
        self.stored = stored(con)
        """The tables whose rows the database keeps."""
        self._keeps = is_unchanging and not is_batch(con)
        self._size: tuple[str, int, int] | None = None
        self._lacking: dict[Statement, bool] = {}

    def lacks(self, statement: Statement) -> bool:
        """Tell whether a statement has no rows for want of what it needs."""
        if statement not in self._lacking:
            self._lacking[statement] = not self.empty.isdisjoint(statement.needed) or any(
                self.lacks(part) for part in statement.needed_parts
            )
        return self._lacking[statement]

    def hold(self, con: duckdb.DuckDBPyConnection, relations: Iterable[str]) -> None:
        """Make tables of those public relations that are kept, where nothing changes them."""
        wanted = [name for name in KEPT if name in relations and name not in self.made]
        self.made.update(wanted)
        if not wanted or not self._keeps:
            return
        if self._size is None:
            (self._size,) = con.execute(SIZE).fetchall()
        run, calls, events = self._size
        for name in wanted:
            if are_few(name, calls, events):
                table = f"tw_held_{name}"
                rows = _nothing(name) if name in self.empty else f"FROM {run}.main.{name}"
                if con.execute(f"CREATE TEMP TABLE {table} AS {rows}").fetchall() == [(0,)]:
                    self.empty.add(name)
                con.execute(f"CREATE TEMP VIEW {name} AS FROM {table}")


def _nothing(relation: str) -> str:
    columns = next(one.columns for one in public_relations() if one.name == relation)
    return no_rows(columns)


def _refuse_transaction(con: duckdb.DuckDBPyConnection) -> None:
    """Raise QueryError where the user has begun a transaction: a ROLLBACK takes back what is
    created for a question, and DuckDB's Python package creates no function a second time.
    """
    now, later = (con.execute("SELECT txid_current()").fetchone() for _ in range(2))
    if now == later:  # each statement is a transaction of its own, but in one that was begun
        raise QueryError(
            "analyses are not asked within a transaction; end it first, with COMMIT or ROLLBACK"
        )
