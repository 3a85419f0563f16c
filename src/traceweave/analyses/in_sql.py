"""Analyses inside queries: `SELECT * FROM gaps(min_gap_ns := 100000)`.

DuckDB's parser says what a query calls. An analysis of that name is put there as a temporary table
macro, which looks for a table that is named after the values it is given. DuckDB works that name
out beforehand, with constants and prepared values, and the rows are computed under it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import duckdb

from traceweave.analyses.catalog import Analysis, catalog
from traceweave.analyses.parameters import literal
from traceweave.analyses.parsed import tree
from traceweave.errors import QueryError

_CALL = "tw_only_run_sql_computes_"
"""How names of the tables begin: what a user reads who asks DuckDB alone."""

Node: TypeAlias = dict[str, Any]
"""Of the syntax tree of a statement."""

Prepared: TypeAlias = Sequence[object] | Mapping[str, object] | None
"""The values of what is prepared in a statement."""


Relation: TypeAlias = Callable[..., str]
"""Computes an analysis, given its name and parameters, and returns the name of its table."""


def compute_calls(
    con: duckdb.DuckDBPyConnection, sql: str, params: Prepared, relation: Relation
) -> None:
    """Compute the analyses that one statement calls, which has `params`, and keep them as temporary
    objects of the connection. Raises QueryError for a wrong parameter.
    """
    known = {analysis.name: analysis for analysis in catalog()}
    values = params if isinstance(params, Mapping) else {}
    if isinstance(params, Sequence):
        values = {str(place): value for place, value in enumerate(params, start=1)}
    for analysis, arguments in _calls(con, known, sql):
        _compute(con, analysis, _given(con, analysis, arguments), values, relation)


def _calls(
    con: duckdb.DuckDBPyConnection, known: Mapping[str, Analysis], sql: str
) -> Iterator[tuple[Analysis, list[Node]]]:
    """Yield the analyses that a statement calls, with what each is given."""
    if known.keys().isdisjoint(word for _, _, word in _tokens(sql)):
        return
    read = json.loads(tree(con, sql))
    for node in _within(read) if not read["error"] else _calls_alone(con, known, sql):
        function = node["function"] if node.get("type") == "TABLE_FUNCTION" else {}
        name = str(function.get("function_name")).lower()
        if name in known and function["schema"] in ("", "main"):
            yield known[name], function["arguments"]


def _calls_alone(
    con: duckdb.DuckDBPyConnection, known: Mapping[str, Analysis], sql: str
) -> Iterator[Node]:
    """Yield the nodes of calls in what is no SELECT, which DuckDB gives no tree of: each alone.

    What a statement makes under a name, it does not call.
    """
    tokens = list(_tokens(sql))
    for place, (start, _, word) in enumerate(tokens):
        depth = 0
        is_call = word in known and tokens[place - 1][2] not in ("macro", "function")
        for _, end, bracket in tokens[place + 1 :] if is_call else ():
            depth += (bracket == "(") - (bracket == ")")
            if depth == 0:
                yield from _within(json.loads(tree(con, f"FROM {sql[start:end]}")))
                break


def _tokens(sql: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of what a statement is made of, names without quotes."""
    starts = [start for start, _ in duckdb.tokenize(sql)]
    for start, end in zip(starts, [*starts[1:], len(sql)], strict=True):
        word = sql[start:end].strip()
        yield start, start + len(word), word.strip('"').lower()


def _within(node: object) -> Iterator[Node]:
    """Yield all that a syntax tree consists of."""
    if isinstance(node, dict):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _within(part)


def _given(
    con: duckdb.DuckDBPyConnection, analysis: Analysis, arguments: Sequence[Node]
) -> dict[str, Node]:
    """Return what the parameters of an analysis are given; raise QueryError for a wrong call."""
    names = [parameter.name for parameter in analysis.parameters]
    given: dict[str, Node] = {}
    for place, argument in enumerate(arguments):
        value = argument["expression"]
        if value["type"] == "COMPARE_EQUAL" and value["left"]["type"] == "COLUMN_REF":
            # DuckDB would compare the text 'step' with 5 in gaps(step = 5)
            name = value["left"]["column_names"][-1]
            _has(analysis, name)
            raise QueryError(
                f"{analysis.name}({name} = …) compares; write {analysis.name}({name} := …)"
            )
        name = argument["name"].lower() or next(iter(names[place : place + 1]), "")
        if name:
            _has(analysis, name)
        if not name or name in given:
            listed = ", ".join(names) or "it has none"
            raise QueryError(f"{analysis.name} takes each of its parameters once: {listed}")
        if any(node.get("class") in ("COLUMN_REF", "SUBQUERY") for node in _within(value)):
            raise QueryError("what an analysis is given has to be constant: no column, no subquery")
        given[name] = value
    return given


def _has(analysis: Analysis, name: str) -> None:
    """Raise QueryError where an analysis has no such parameter."""
    default = next((p.default for p in analysis.parameters if p.name == name), None)
    analysis.bind({name: default})


def _compute(
    con: duckdb.DuckDBPyConnection,
    analysis: Analysis,
    given: Mapping[str, Node],
    values: Mapping[str, object],
    relation: Relation,
) -> None:
    """Make an analysis a function of `con`, with the rows that it has for what it is given."""
    takes = ", ".join(f'"{p.name}" := {literal(p.default)}' for p in analysis.parameters)
    create = f"CREATE TEMP MACRO IF NOT EXISTS {analysis.name}({takes}) AS TABLE FROM"
    if not analysis.parameters:  # DuckDB wants to see the rows of what is always the same
        con.execute(f"{create} {relation(analysis.name)}")
        return
    own = {parameter.name: f'"{parameter.name}"' for parameter in analysis.parameters}
    con.execute(f"{create} query_table('{_CALL}{analysis.name}_' || {_named(own)})")
    of_call = [node for value in given.values() for node in _within(value)]
    prepared = {node["identifier"] for node in of_call if "identifier" in node}
    if prepared <= values.keys():  # else DuckDB says what it lacks
        usual = {parameter.name: literal(parameter.default) for parameter in analysis.parameters}
        call = usual | {name: _as_sql(con, value) for name, value in given.items()}
        given_values = {name: values[name] for name in prepared}
        ((name,),) = con.execute(f"SELECT {_named(call)}", given_values or None).fetchall()
        rows = relation(analysis.name, **json.loads(bytes.fromhex(name)))
        con.execute(f"CREATE OR REPLACE TEMP VIEW {_CALL}{analysis.name}_{name} AS FROM {rows}")


def _named(call: Mapping[str, str]) -> str:
    """Return SQL for the name that a call gives its rows, given SQL for the values."""
    fields = ", ".join(f"'{name}': {value}" for name, value in call.items())
    return f"hex(to_json({{{fields}}})::VARCHAR)"


def _as_sql(con: duckdb.DuckDBPyConnection, expression: Node) -> str:
    """Return the SQL of an expression in a syntax tree."""
    select = json.loads(tree(con, "SELECT 1"))
    select["statements"][0]["node"]["select_list"] = [{**expression, "alias": ""}]
    ask = "SELECT json_deserialize_sql(?::JSON)"
    ((sql,),) = con.execute(ask, [json.dumps(select)]).fetchall()
    return str(sql).removeprefix("SELECT ")
