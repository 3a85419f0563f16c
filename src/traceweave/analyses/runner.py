"""Asking a run one of the questions in the catalog."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

import duckdb

from traceweave.analyses.catalog import Analysis, Value, find
from traceweave.errors import QueryError


def run(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> duckdb.DuckDBPyRelation:
    """Run the analysis `name` on the database behind `con` and return its rows.

    Parameters that are not given have their default. The connection may be read-only; it keeps
    the shared macros (`tw_...`) as temporary ones. Raises UsageError for an unknown analysis,
    QueryError for a wrong parameter or a database that the analysis cannot read.
    """
    analysis = find(name)
    values = analysis.bind(params)
    try:
        create_macros(con, analysis.sql)
        if not values:
            return con.sql(analysis.sql)
        return con.sql(analysis.sql, params=values)
    except duckdb.Error as error:
        reason = " ".join(str(error).split())
        raise QueryError(f"analysis {name} cannot be run on this database: {reason}") from error


def create_macros(con: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Create the shared macros that `sql` calls in `con`, unless it has them.

    `analysis_<name>(p_<parameter> := value, ...)` in it is a table: the rows of that analysis.
    """
    for definitions in macro_files().values():
        if any(name in sql for name in re.findall(r"MACRO IF NOT EXISTS (\w+)", definitions)):
            con.execute(definitions)
    for name in dict.fromkeys(re.findall(r"\banalysis_(\w+)\(", sql)):
        analysis = find(name)
        create_macros(con, analysis.sql)
        con.execute(table_macro(analysis))


def table_macro(analysis: Analysis) -> str:
    """Return the statement that makes an analysis a table for the statements of others."""
    parameters = ", ".join(f"p_{p.name} := {_literal(p.default)}" for p in analysis.parameters)
    body = re.sub(r"\$(\w+)", r"p_\1", analysis.sql)
    name = f"analysis_{analysis.name}"
    return f"CREATE TEMP MACRO IF NOT EXISTS {name}({parameters}) AS TABLE\n{body}"


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)


@cache
def macro_files() -> dict[str, str]:
    """Return the text of every file of macros/ by its stem, in alphabetical order."""
    files = resources.files(__package__).joinpath("macros").iterdir()
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(".sql")
    }
