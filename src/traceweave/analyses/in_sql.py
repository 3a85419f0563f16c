"""Analyses inside queries: `SELECT * FROM gaps(min_gap_ns := 100000)`.

DuckDB itself says what a query calls: it refuses a function that it does not know, so that an
analysis of this name is put there as a temporary table macro, which looks for a table that is
named after the values it is given. Where there is none yet, DuckDB refuses that name; the rows are
computed under it, and the query is asked again. So calls are found wherever SQL allows them, with
constants worked out and prepared values filled in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import duckdb

from traceweave.analyses.catalog import Analysis, catalog
from traceweave.analyses.parameters import Value, literal
from traceweave.analyses.runner import analysis_relation
from traceweave.errors import QueryError

_UNKNOWN = re.compile(r"Table Function with name \"?(\w+)\"? does not exist")
_CALL = "tw_only_run_sql_computes_"
"""How names of the tables begin: what a user reads who asks DuckDB alone."""
_NOT_COMPUTED = re.compile(rf"Table with name {_CALL}(\w+)_([0-9A-F]+) does not exist")
_WRONG_CALL = re.compile(r"Macro \"?(\w+)\"?\(\) does not support the supplied arguments")
_NO_CONSTANT = 'Table function "query_table" does not support'

_FUNCTION = re.compile(r"\b(\w+)\"?\s*\(")
_MACROS = """
SELECT function_name FROM duckdb_functions() WHERE list_contains(?, function_name)
GROUP BY function_name
HAVING bool_or(database_name = current_database()) AND NOT bool_or(database_name = 'temp')
"""

T = TypeVar("T")


def with_analyses(con: duckdb.DuckDBPyConnection, sql: str, ask: Callable[[], T]) -> T:
    """Return what `ask` does, which gives the one statement `sql` to `con`; it may call analyses.

    What it calls is computed first and kept as temporary objects of the connection. Raises
    QueryError for a wrong parameter, else what `ask` raises.
    """
    known = {analysis.name: analysis for analysis in catalog()}
    _refuse_comparisons(con, known, sql)
    for name in _installed(con, known, sql):
        _put_there(con, known[name])
    while True:
        try:
            return ask()
        except duckdb.CatalogException as error:
            call = _NOT_COMPUTED.search(str(error))
            if call is not None and (values := _given(call[2])) is not None:
                rows = analysis_relation(con, call[1], **values)
                con.execute(f"CREATE TEMP VIEW {_CALL}{call[1]}_{call[2]} AS FROM {rows}")
            elif (name := _unknown(con, error)) in known:
                _put_there(con, known[name])
            else:
                raise
        except duckdb.BinderException as error:
            if _NO_CONSTANT in str(error):
                raise QueryError(
                    "what an analysis is given has to be constant: no column, no subquery"
                ) from error
            wrong = _WRONG_CALL.search(str(error))
            if wrong is None or wrong[1].lower() not in known:
                raise
            raise QueryError(_how_to_call(con, known[wrong[1].lower()], sql)) from error


def _unknown(con: duckdb.DuckDBPyConnection, error: duckdb.CatalogException) -> str:
    """Return the name of the function that DuckDB misses, '' if it is there or nothing like it."""
    found = _UNKNOWN.search(str(error))
    name = found[1].lower() if found else ""
    there = con.execute("SELECT 1 FROM duckdb_functions() WHERE function_name = ?", [name])
    return "" if there.fetchall() else name


def _installed(con: duckdb.DuckDBPyConnection, known: dict[str, Analysis], sql: str) -> list[str]:
    """Return what a query may call of the macros in the database that are for other clients."""
    named = [name for name in set(_FUNCTION.findall(sql.lower())) if name in known]
    return [name for (name,) in con.execute(_MACROS, [named]).fetchall()] if named else []


def _put_there(con: duckdb.DuckDBPyConnection, analysis: Analysis) -> None:
    """Make an analysis a function of `con`, whose rows are a table that is named by its values."""
    if not analysis.parameters:  # DuckDB wants to see the rows of what is always the same
        rows = analysis_relation(con, analysis.name)
    else:
        fields = (f"""'{p.name}': "{p.name}\"""" for p in analysis.parameters)
        given = f"to_json({{{', '.join(fields)}}})::VARCHAR"
        rows = f"query_table('{_CALL}{analysis.name}_' || hex({given}))"
    takes = ", ".join(f'"{p.name}" := {literal(p.default)}' for p in analysis.parameters)
    con.execute(f"CREATE TEMP MACRO {analysis.name}({takes}) AS TABLE FROM {rows}")


def _given(text: str) -> dict[str, object] | None:
    """Return the values that the name of a table says; None if it does not come from a call."""
    try:
        values = json.loads(bytes.fromhex(text))
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _how_to_call(con: duckdb.DuckDBPyConnection, analysis: Analysis, sql: str) -> str:
    """Say what is wrong with the call of an analysis that DuckDB refuses."""
    for name in _given_names(con, analysis, sql):
        try:
            analysis.bind({name: None})
        except QueryError as error:
            if "has no parameter" in str(error):
                return str(error)
    listed = ", ".join(parameter.name for parameter in analysis.parameters)
    return f"{analysis.name} takes each of its parameters once: {listed or 'it has none'}"


def _given_names(con: duckdb.DuckDBPyConnection, analysis: Analysis, sql: str) -> Iterator[str]:
    """Yield the parameters by name that a SELECT calls an analysis with."""
    for name, arguments in _calls(con, sql):
        if name == analysis.name:
            yield from (argument["name"] for argument in arguments if argument["name"])


def _refuse_comparisons(
    con: duckdb.DuckDBPyConnection, known: dict[str, Analysis], sql: str
) -> None:
    """Raise QueryError for `gaps(step = 5)`, where DuckDB would compare the text 'step' with 5."""
    for called, arguments in _calls(con, sql) if "=" in sql else ():
        for argument in arguments if called in known else ():
            given = argument["expression"]
            if given["type"] != "COMPARE_EQUAL" or given["left"]["type"] != "COLUMN_REF":
                continue
            name = given["left"]["column_names"][-1]
            known[called].bind({name: _default(known[called], name)})
            raise QueryError(f"{called}({name} = …) compares; write {called}({name} := …)")


def _default(analysis: Analysis, name: str) -> Value:
    return next((p.default for p in analysis.parameters if p.name == name), None)


def _calls(con: duckdb.DuckDBPyConnection, sql: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the functions that a SELECT calls, with what each is given."""
    rows = con.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    found: list[Any] = [json.loads(text) for (text,) in rows]
    while found:
        node = found.pop()
        if isinstance(node, dict):
            if "function_name" in node:
                yield str(node["function_name"]).lower(), node["arguments"]
            found += node.values()
        elif isinstance(node, list):
            found += node
