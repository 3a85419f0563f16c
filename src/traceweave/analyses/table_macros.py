"""Analyses as table macros in the database itself, so that every client of DuckDB can ask them.

That can be done where a statement and all that it reads is SQL alone. Each becomes a macro of the
name by which statements call it, whose parameters begin with p_ so that no column is mistaken for
one; each analysis besides one of its own name and parameters. Nothing is kept: rows are computed
when they are asked for. The other analyses are there by name, parameters and columns, and say what
answers them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from traceweave.analyses.catalog import Analysis, called, catalog
from traceweave.analyses.in_sql import literal
from traceweave.analyses.parameters import Parameter
from traceweave.analyses.runner import macros, macros_of
from traceweave.analyses.sentences import WRITERS
from traceweave.analyses.statements import CALL, EVERY_RULE, Statement
from traceweave.analyses.sweeps.functions import SWEEPS

_CREATE = re.compile(r"CREATE (?:OR REPLACE )?TEMP (MACRO IF NOT EXISTS (\w+)|TABLE (\w+))")
_COMMENT = re.compile(r"--[^\n]*")
_IN_PYTHON = re.compile(rf"\b({'|'.join((*WRITERS, *SWEEPS))})\b|{re.escape(EVERY_RULE)}")


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


def _refusal(analysis: Analysis) -> str:
    """Return a SELECT of the columns of an analysis that fails, whatever is asked of them."""
    columns = ", ".join(f'NULL::{column.type} AS "{column.name}"' for column in analysis.columns)
    said = f"{analysis.name} needs Python: ask with traceweave query, or run.sql in Python"
    return f"SELECT {columns} WHERE error({literal(said)})"


def _asked(analysis: Analysis) -> str:
    """Return the call of the inner macro of an analysis with the values that the outer one has.

    As text, since DuckDB takes a parameter `rank` and a column `rank` for each other otherwise.
    """
    inner = f"analysis_{analysis.name}"
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
    texts = [statement.sql, *(macros()[name] for name in macros_of(statement.sql))]
    if statement.needs or statement.through or any(map(_IN_PYTHON.search, texts)):
        return False
    return all(_is_sql(called(kind, name)) for kind, name, _ in CALL.findall(statement.sql))


def _with_parts(statement: Statement) -> Iterator[str]:
    for name in macros_of(statement.sql):
        yield _kept(macros()[name])
    for kind, name, _ in CALL.findall(statement.sql):
        yield from _with_parts(called(kind, name))
    takes = ", ".join(f"p_{p.name} := {literal(p.default)}" for p in statement.parameters)
    body = CALL.sub(lambda call: _call(statement, call), _COMMENT.sub("", statement.sql))
    body = _own_tables(re.sub(r"\$(\w+)", r"p_\1", body))
    yield f"CREATE OR REPLACE MACRO {statement.kind}_{statement.name}({takes}) AS TABLE\n{body}"


def _call(statement: Statement, call: re.Match[str]) -> str:
    """Write a call with all that it is given, also what it has of the caller without a word."""
    part = called(call[1], call[2])
    own = {parameter.name for parameter in statement.parameters}
    given = {
        f"p_{p.name}": f"p_{p.name}"
        for p in part.parameters
        if p.name in own and part.kind != "analysis"
    }
    for argument in filter(None, map(str.strip, call[3].split(","))):
        name, _, value = map(str.strip, argument.partition(":="))
        given[name] = value
    return f"{call[1]}_{call[2]}({', '.join(f'{n} := {v}' for n, v in given.items())})"


def _kept(definition: str) -> str:
    """Return the definition of a shared macro or table as one of a macro that stays."""
    body = _COMMENT.sub("", definition)
    created = _CREATE.search(body)
    assert created is not None
    rest = _own_tables(body[created.end() :])
    if created[2]:
        return f"CREATE OR REPLACE MACRO {created[2]}{rest}".strip()
    return f"CREATE OR REPLACE MACRO {created[3]}() AS TABLE {rest.lstrip().removeprefix('AS')}"


def _own_tables(sql: str) -> str:
    """Read the shared tables as macros."""
    tables = "|".join(name for name, text in macros().items() if text.startswith("-- table: "))
    return re.sub(rf"\b({tables})\b", r"\1()", sql)
