"""Rows for the report: named queries of this package, and analyses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from typing import Any

import duckdb
import pyarrow as pa

from traceweave.analyses import find
from traceweave.analyses.runner import materialize
from traceweave.errors import QueryError

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
    return _analysis(con, name, {}).select(*columns).to_arrow_table()


def analysis_rows(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> list[Row]:
    """Return the rows of an analysis; one dictionary per row."""
    return _analysis(con, name, params).to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def _analysis(
    con: duckdb.DuckDBPyConnection, name: str, params: dict[str, object]
) -> duckdb.DuckDBPyRelation:
    """Compute an analysis once, where others that read it find its rows again."""
    analysis = find(name)
    try:
        return con.table(materialize(con, analysis, analysis.bind(params)))
    except duckdb.Error as error:
        raise QueryError(f"analysis {name} cannot be run on this database: {error}") from error
