"""The tables of a database, and the copies of them that tests begin with."""

from __future__ import annotations

import duckdb

from tests import tables
from traceweave.store import schema

EVERYTHING = (
    "SELECT schema_name, table_name, comment, sql FROM duckdb_tables() ORDER BY ALL",
    "SELECT schema_name, view_name, comment, sql FROM duckdb_views() WHERE NOT internal"
    " ORDER BY ALL",
    "SELECT schema_name, table_name, column_name, data_type, comment FROM duckdb_columns()"
    " WHERE NOT internal ORDER BY ALL",
    "SELECT schema_name, function_name, parameters, macro_definition FROM duckdb_functions()"
    " WHERE NOT internal ORDER BY ALL",
    "SELECT table_name, constraint_text FROM duckdb_constraints() ORDER BY ALL",
    "FROM meta",
)


def test_tests_begin_with_the_tables_that_an_ingest_creates() -> None:
    with duckdb.connect() as created, duckdb.connect() as copied:
        schema.create_tables(created)
        tables.create_tables(copied)
        for query in EVERYTHING:
            rows = created.execute(query).fetchall()
            assert rows
            assert rows == copied.execute(query).fetchall()


def test_every_public_column_says_what_it_means(empty_run: duckdb.DuckDBPyConnection) -> None:
    commented = empty_run.execute(
        "SELECT table_name, column_name, comment FROM duckdb_columns()"
        " WHERE schema_name = 'main' AND NOT internal AND table_name <> 'meta'"
        " ORDER BY table_name, column_index"
    ).fetchall()
    documented = [
        (relation.name, column.name, column.meaning)
        for relation in sorted(schema.public_relations(), key=lambda relation: relation.name)
        for column in relation.columns
    ]
    assert commented == documented


def test_the_tables_of_a_source_are_those_whose_rows_name_it(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    assert {"base.gpu_ops", "base.rank_sources"} <= set(schema.source_tables(empty_run))
    empty_run.execute("CREATE TABLE base.one_more (source_id INTEGER, what VARCHAR)")
    empty_run.execute("CREATE TABLE base.of_the_run (what VARCHAR)")
    empty_run.execute("CREATE TEMP TABLE staged (source_id INTEGER)")
    found = set(schema.source_tables(empty_run))
    assert "base.one_more" in found
    assert not any(name in table for table in found for name in ("of_the_run", "staged", "matches"))
