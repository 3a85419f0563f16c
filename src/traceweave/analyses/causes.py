"""What the names of causes mean, for those who write about them; analyses call the same macros."""

from __future__ import annotations

import duckdb

from traceweave.analyses.runner import provide


def gap_causes(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return why a device runs nothing: every cause of `idle_causes` and its words, in order."""
    return _words(con, "tw_gap_causes()")


def late_causes(con: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return why a rank comes last: every cause of `stragglers` and its words, in order."""
    return _words(con, "tw_late_causes()")


def _words(con: duckdb.DuckDBPyConnection, macro: str) -> dict[str, str]:
    sql = f"SELECT cause, words FROM {macro} ORDER BY place"
    provide(con, sql)
    return dict(con.execute(sql).fetchall())
