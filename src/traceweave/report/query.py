"""Rows for the report: analyses, public relations, and the queries that draw the timeline.

Those only draw: what answers a question is an analysis, so that it has one number everywhere. Rows
that several queries read stay in DuckDB, which spills them to disk if memory is short: they are
temporary relations of the connection, under the names that the queries say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from traceweave.analyses import analysis_relation
from traceweave.vocabulary import script

Row = dict[str, Any]


def query_text(name: str) -> str:
    """Return the SQL of queries/`name`.sql, as the page shows it."""
    return script(__package__, f"queries/{name}.sql").strip()


def query_rows(con: duckdb.DuckDBPyConnection, name: str) -> list[Row]:
    """Run queries/`name`.sql; one dictionary per row."""
    return con.sql(query_text(name)).to_arrow_table().to_pylist()  # type: ignore[no-any-return]


@contextmanager
def standing_as(con: duckdb.DuckDBPyConnection, **relations: str) -> Iterator[None]:
    """Let each SELECT stand as the relation of its keyword while the block runs."""
    for relation, select in relations.items():
        con.execute(f"CREATE OR REPLACE TEMP VIEW {relation} AS {select}")
    try:
        yield
    finally:
        for relation in relations:
            con.execute(f"DROP VIEW temp.{relation}")


@contextmanager
def query_as(con: duckdb.DuckDBPyConnection, relation: str, name: str) -> Iterator[pa.Table]:
    """Run queries/`name`.sql, whose rows stand as `relation` while the block runs; yield them."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE {relation} AS\n{query_text(name)}").fetchall()
    try:
        yield con.table(f"temp.{relation}").to_arrow_table()
    finally:
        con.execute(f"DROP TABLE temp.{relation}")


@contextmanager
def rows_as(
    con: duckdb.DuckDBPyConnection, relation: str, rows: Sequence[Row], types: Mapping[str, str]
) -> Iterator[None]:
    """Let columns of `rows` stand as `relation` while the block runs; `types`: name to SQL type."""
    columns = ", ".join(f"unnest(CAST(${key} AS {kind}[])) AS {key}" for key, kind in types.items())
    values = {key: [row[key] for row in rows] for key in types}
    con.execute(f"CREATE OR REPLACE TEMP TABLE {relation} AS SELECT {columns}", values).fetchall()
    try:
        yield
    finally:
        con.execute(f"DROP TABLE temp.{relation}")


def analysis_rows(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> list[Row]:
    """Return the rows of an analysis; one dictionary per row."""
    rows = con.table(analysis_relation(con, name, **params))
    return rows.to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def relation_rows(con: duckdb.DuckDBPyConnection, name: str, order: str) -> list[Row]:
    """Return the rows of a public relation, by the columns in `order`."""
    return con.table(name).order(order).to_arrow_table().to_pylist()  # type: ignore[no-any-return]
