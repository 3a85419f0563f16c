"""Rows for the report: named queries of this package, and analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from traceweave import analyses

Row = dict[str, Any]


def query_text(name: str) -> str:
    """Return the SQL of queries/`name`.sql, as the page shows it."""
    folder = resources.files(__package__).joinpath("queries")
    return folder.joinpath(f"{name}.sql").read_text(encoding="utf-8").strip()


def query_rows(con: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    """Run queries/`name`.sql; one dictionary per row."""
    cursor = con.execute(query_text(name))
    columns = [column[0] for column in cursor.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def query_table(con: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    """Run queries/`name`.sql; return one Arrow table."""
    return con.sql(query_text(name)).to_arrow_table()


@contextmanager
def standing_as(con: duckdb.DuckDBPyConnection, **tables: pa.Table) -> Iterator[None]:
    """Let each table stand as the relation of its keyword while the block runs."""
    for relation, table in tables.items():
        con.register(relation, table)
    try:
        yield
    finally:
        for relation in tables:
            con.unregister(relation)


def query_over(
    con: duckdb.DuckDBPyConnection, name: str, relation: str, table: pa.Table
) -> list[Row]:
    """Run queries/`name`.sql with `table` standing as `relation`."""
    with standing_as(con, **{relation: table}):
        return query_rows(con, name)


def analysis_table(con: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str]) -> pa.Table:
    """Return these columns of an analysis as one Arrow table."""
    return analyses.run(con, name).select(*columns).to_arrow_table()


def analysis_rows(con: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    """Return the rows of an analysis; one dictionary per row."""
    return analyses.run(con, name).to_arrow_table().to_pylist()  # type: ignore[no-any-return]
