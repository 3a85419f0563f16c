"""The tables of a traceweave database: creating them, and their documentation.

tables/ holds the base tables, gathered.sql what weaving needs of the large ones, macros.sql what
queries may call, views/ the public relations with a documented header each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import NamedTuple

import duckdb

from traceweave.markup import table
from traceweave.store.rows import insert_rows
from traceweave.vocabulary import script

SCHEMA_VERSION = 22
"""Raised whenever a database written before can no longer be read by the code after."""

LEAST_PAUSE_NS = 500_000
"""Of base.pauses, shorter ones are too short to make a group: of 480 recorded calls that made one
the quickest took 0.5 ms."""


_TABLES = ("run", "events", "calls", "job")
_VIEWS = (
    "run", "ops", "collectives", "messages", "timeline", "flight_recorder", "nccl", "capture",
)  # fmt: skip
"""Files of tables/ and views/, each after those that it reads."""


class Column(NamedTuple):
    """One documented column of a relation or of an analysis."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Relation:
    """One public table or view and what its rows and columns mean."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    def _repr_html_(self) -> str:
        """Return what a notebook shows of it."""
        return f"<b>{self.name}</b>: {escape(self.meaning)}{table(Column._fields, self.columns)}"


class Schema(tuple[Relation, ...]):
    """The public relations; a notebook shows them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table(["relation", "rows"], ([r.name, r.meaning] for r in self))


def create_tables(con: duckdb.DuckDBPyConnection) -> None:
    """Create the empty base tables, the public relations and their comments in `con`."""
    create_base(con)
    create_macros(con)
    con.execute(_views())
    insert_rows(con, "meta", [{"name": "schema_version", "value": str(SCHEMA_VERSION)}])
    _write_comments(con)


def create_base(con: duckdb.DuckDBPyConnection) -> None:
    """Create what loaders fill: the empty base tables, and what weaving gathers of them."""
    con.execute("".join(script(__package__, f"tables/{name}.sql") for name in _TABLES))
    con.execute(script(__package__, "gathered.sql"))


def create_macros(con: duckdb.DuckDBPyConnection) -> None:
    """Create what queries may call beside the public relations."""
    con.execute(script(__package__, "macros.sql"))


def source_tables(con: duckdb.DuckDBPyConnection, *also: str) -> list[str]:
    """Return the base tables whose rows say which file they are from, and have the columns `also`,
    asked of DuckDB's catalog.
    """
    columns = ["source_id", *also]
    found = con.execute(
        "SELECT format('base.{}', table_name) FROM duckdb_columns()"
        " SEMI JOIN duckdb_tables() USING (database_oid, table_oid)"
        " WHERE database_name = current_database() AND schema_name = 'base'"
        " AND list_contains($1, column_name) GROUP BY 1 HAVING count(*) = len($1) ORDER BY 1",
        [columns],
    )
    return [name for (name,) in found.fetchall()]


@cache
def public_relations() -> tuple[Relation, ...]:
    """Return the public relations in the order of views/."""
    relations: list[Relation] = []
    for line in _views().splitlines():
        if line.startswith("-- relation: "):
            name, meaning = line.removeprefix("-- relation: ").split(" | ", 1)
            relations.append(Relation(name, meaning, ()))
        elif line.startswith("-- column: "):
            column = parse_column(line.removeprefix("-- column: "))
            last = relations[-1]
            relations[-1] = Relation(last.name, last.meaning, (*last.columns, column))
    return tuple(relations)


def parse_column(text: str) -> Column:
    """Parse `name TYPE | meaning`, the form in which headers document a column."""
    declaration, meaning = text.split(" | ", 1)
    name, type_ = declaration.split(" ", 1)
    return Column(name, type_.strip(), meaning.strip())


def no_rows(columns: Iterable[Column]) -> str:
    """Return a SELECT that gives such columns, and no row."""
    listed = ", ".join(f"CAST(NULL AS {column.type}) AS {column.name}" for column in columns)
    return f"SELECT {listed} WHERE FALSE"


def _write_comments(con: duckdb.DuckDBPyConnection) -> None:
    found = con.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'")
    tables = {name for (name,) in found.fetchall()}
    comments = []
    for relation in public_relations():
        kind = "TABLE" if relation.name in tables else "VIEW"
        comments.append(f"COMMENT ON {kind} {relation.name} IS {_literal(relation.meaning)}")
        for column in relation.columns:
            where = f"{relation.name}.{column.name}"
            comments.append(f"COMMENT ON COLUMN {where} IS {_literal(column.meaning)}")
    con.execute(";".join(comments))  # one by one they take half as long again


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _views() -> str:
    return "".join(script(__package__, f"views/{name}.sql") for name in _VIEWS)
