"""Analyses as table macros in the database itself, so that every client of DuckDB can ask them.

That can be done where a statement and all that it reads is SQL alone. Each becomes a macro of the
name by which statements call it, whose parameters begin with p_ so that no column is mistaken for
one; each analysis besides one of its own name and parameters. Nothing is kept: rows are computed
when they are asked for. The other analyses are there by name, parameters and columns, and say what
answers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import duckdb

from traceweave.analyses.catalog import Analysis, catalog, render
from traceweave.analyses.inputs import INPUTS, THROUGH
from traceweave.analyses.parameters import Parameter, Value, literal
from traceweave.analyses.parsed import named
from traceweave.analyses.runner import definitions, table_of
from traceweave.analyses.sentences import WRITERS
from traceweave.analyses.statements import Statement
from traceweave.analyses.sweeps.functions import SWEEPS
from traceweave.analyses.templates import Asked, Sql
from traceweave.errors import UsageError
from traceweave.store.schema import public_relations

_IN_PYTHON = frozenset((*WRITERS, *SWEEPS, *INPUTS))


def as_macros() -> tuple[Analysis, ...]:
    """Return the analyses that need nothing but SQL."""
    return tuple(analysis for analysis in catalog() if _is_sql(analysis))


def create_statements() -> list[str]:
    """Return the statements that create them, each after what it reads, and the others' names."""
    statements: dict[str, None] = {}
    for analysis in catalog():
        if _is_sql(analysis):
            statements |= dict.fromkeys(_with_parts(analysis))
        body = f"FROM {_asked(analysis)}" if _is_sql(analysis) else _refusal(analysis)
        takes = ", ".join(f'"{p.name}" := {literal(p.default)}' for p in analysis.parameters)
        create = f"CREATE OR REPLACE MACRO {analysis.name}({takes}) AS TABLE\n{body}"
        comment = f"COMMENT ON MACRO TABLE {analysis.name} IS {literal(analysis.answers)}"
        statements |= dict.fromkeys((create, comment))
    return list(statements)


def script(analysis: Analysis, values: Mapping[str, Value]) -> list[str]:
    """Return the statements that an analysis is, for any client: those that make what it reads, as
    temporary tables and macros, then its SELECT with the values of its parameters.

    Raises UsageError for one that needs Python.
    """
    if not _is_sql(analysis):
        raise UsageError(f"{analysis.name} needs Python: its SQL alone does not run elsewhere")
    made: dict[str, None] = {}

    def table(part: Statement, given: dict[str, Value]) -> str:
        name = table_of(part, given)
        made[f"CREATE OR REPLACE TEMP TABLE {name} AS\n{select(part, given)}"] = None
        return name

    def select(statement: Statement, given: Mapping[str, Value]) -> str:
        sql = render(statement, given, table)
        for name in _needed(sql):
            made.update({definitions()[name].create(): None} if name in definitions() else {})
        return sql

    last = select(analysis, values)
    return [*made, last]


def _refusal(analysis: Analysis) -> str:
    """Return a SELECT of the columns of an analysis that fails, whatever is asked of them."""
    named = (f'NULL::{column.type} AS "{column.name}"' for column in analysis.columns)
    columns = ", ".join(named) or "NULL AS rows"
    said = f"{analysis.name} needs Python: ask with traceweave query, or run.sql in Python"
    return f"SELECT {columns} WHERE error({literal(said)})"


def _asked(analysis: Analysis) -> str:
    """Return the call of the inner macro of an analysis with the values that the outer one has.

    As text, since DuckDB takes a parameter `rank` and a column `rank` for each other otherwise.
    """
    inner = _inner(analysis)
    if not analysis.parameters:
        return f"{inner}()"
    given = " || ', ' || ".join(
        f"'p_{parameter.name} := ' || {_written(parameter)}" for parameter in analysis.parameters
    )
    return f"query('FROM {inner}(' || {given} || ')')"


def _written(parameter: Parameter) -> str:
    """Return SQL that gives the value of a parameter as SQL writes it, or fails for a wrong one."""
    text = f'CAST("{parameter.name}" AS {parameter.type})::VARCHAR'
    if parameter.choices:
        allowed = [choice for choice, _ in parameter.choices]
        wrong = f"it is one of: {', '.join(allowed)}"
        text = (
            f"CASE WHEN {text} IN ({', '.join(map(literal, allowed))}) THEN {text} ELSE"
            f" error('parameter {parameter.name} cannot be ' || {text} || {literal(f'; {wrong}')})"
            " END"
        )
    if parameter.type == "VARCHAR":
        text = f"chr(39) || replace({text}, chr(39), repeat(chr(39), 2)) || chr(39)"
    return f"coalesce({text}, 'NULL')"


@cache
def _is_sql(statement: Statement) -> bool:
    """Whether a statement and all that it reads is SQL alone."""
    if statement.through or not _IN_PYTHON.isdisjoint(_needed(as_macro(statement))):
        return False
    return all(_is_sql(part) for part in statement.parts)


@cache
def _needed(sql: str) -> tuple[str, ...]:
    """Return what a SELECT names, and what the shared macros and tables among that do, each after
    what it needs itself.
    """
    with duckdb.connect() as con:
        direct = named(con, sql)
    names = []
    for name in sorted(direct):
        definition = definitions().get(name)
        names += [*(_needed(definition.select()) if definition else ()), name]
    return tuple(dict.fromkeys(names))


def _with_parts(statement: Statement) -> Iterator[str]:
    sql = as_macro(statement)
    own = (definitions()[name] for name in _needed(sql) if name in definitions())
    yield from (definition.create(temporary=False) for definition in own)
    for part in statement.parts:
        yield from _with_parts(part)
    takes = ", ".join(f"p_{p.name} := {literal(p.default)}" for p in statement.parameters)
    yield f"CREATE OR REPLACE MACRO {_inner(statement)}({takes}) AS TABLE\n{sql}"


def _inner(statement: Statement) -> str:
    return f"{statement.kind}_{statement.name}"


@cache
def as_macro(statement: Statement) -> str:
    """Return its SQL with macros in place of what it reads, and theirs in place of parameters."""
    own = {parameter.name for parameter in statement.parameters}

    def rows(asked: Asked, given: dict[str, Value | Sql]) -> str:
        """Write a call with all that it is given, also what it has of the caller without a word."""
        calls = []
        for part in statement.find(asked):
            shared = () if part.kind == "analysis" else part.parameters
            values = {p.name: Sql(f"p_{p.name}") for p in shared if p.name in own} | given
            written = (
                f"p_{name} := {value if isinstance(value, Sql) else literal(value)}"
                for name, value in values.items()
            )
            calls.append(f"{_inner(part)}({', '.join(written)})")
        return ", ".join(calls)

    return statement.template.render(lambda name: Sql(f"p_{name}"), rows)


@cache
def relations(statement: Statement) -> tuple[str, ...]:
    """Return the public relations that the rows of a statement are made of, in their order."""
    needed = _needed(as_macro(statement))
    in_python = [INPUTS[name] for name in needed if name in INPUTS]
    in_python += [THROUGH[statement.through]] if statement.through else []
    read = {*needed, *(name for one in in_python for name in one.reads)}
    read |= {name for part in statement.parts for name in relations(part)}
    return tuple(relation.name for relation in public_relations() if relation.name in read)
