"""Statements as DuckDB parses them, each once per process, whatever the run and the connection.

What many small runs are asked, or two that are compared, is parsed longer than it is computed: of
`findings` on a run of two operations parsing is a seventh.
"""

from __future__ import annotations

import duckdb

MOST = 1_000
"""Statements that are kept: all that there are, with some values of their parameters."""

_parsed: dict[str, duckdb.Statement] = {}


def parsed(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return one statement for `con`, or any other connection, to run."""
    found = _parsed.get(sql)
    if found is None:
        (found,) = con.extract_statements(sql)
        if len(_parsed) >= MOST:
            _parsed.clear()
        _parsed[sql] = found
    return found
