"""Writing few rows by the names of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb


def insert_rows(
    con: duckdb.DuckDBPyConnection, table: str, rows: Iterable[Mapping[str, object]]
) -> None:
    """Insert rows of the same columns into a table whose name is written in this program."""
    listed = list(rows)
    if listed:
        names = list(listed[0])
        marks = ", ".join("?" * len(names))
        con.executemany(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})",
            [[row[name] for name in names] for row in listed],
        )
