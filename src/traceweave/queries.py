"""SQL that a user writes: what it may hold, its rows, and what is wrong with it, in one line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial

import duckdb
import pyarrow as pa

from traceweave import analyses
from traceweave.errors import QueryError, nearest, shortened
from traceweave.store.database import first_line
from traceweave.store.schema import public_relations

Parameters = Sequence[object] | Mapping[str, object]

_WITHIN = frozenset(
    {"SELECT", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "PRAGMA", "CALL", "SET", "MULTI"}
)
"""Statements that stay within the connection; those that change tables serve temporary ones."""

_EXPLAIN = re.compile(r"\s*EXPLAIN\s*(ANALYZE\b|\([^)]*\))?", re.IGNORECASE)

_ONLY_READ = (
    "queries only read this database; to change it, or for other files, extensions or settings,"
    " open it with DuckDB itself"
)
_CHANGING = frozenset({"CREATE", "DROP", "INSERT", "UPDATE", "DELETE"})
_OWN = "tw_"
"""How the names of what is kept for further questions begin."""

_HIDING = """
WITH made AS (
    FROM system.main.duckdb_tables() SELECT 'TABLE' AS kind, database_name, schema_name,
        table_name AS name, '' AS text
    UNION ALL
    FROM system.main.duckdb_views() SELECT 'VIEW', database_name, schema_name, view_name, sql
    UNION ALL
    FROM system.main.duckdb_functions()
    SELECT CASE function_type WHEN 'macro' THEN 'MACRO' ELSE 'MACRO TABLE' END, database_name,
        schema_name, function_name, macro_definition
    WHERE function_type IN ('macro', 'table_macro')
)
FROM made SELECT kind, database_name, schema_name, name
WHERE database_name IN ('temp', 'memory') AND NOT contains(text, $own) AND CASE
    WHEN kind IN ('TABLE', 'VIEW') THEN lower(name) IN (SELECT unnest($relations))
    ELSE lower(name) IN (SELECT unnest($analyses)) OR lower(name) IN (
        FROM system.main.duckdb_functions() SELECT function_name WHERE internal
    )
END
"""
"""What a user made under the name of a table of the run, an analysis or a function of DuckDB's, in
the databases that are searched before it or may be made to be."""

_CHANGES = re.compile(
    r"read-only mode|configuration has been locked|Can only .* base table|is not an table"
)
"""What DuckDB says of a statement that would change the run, or what is locked for it."""

_QUOTE_WINDOW = (
    "the parameter takes quotes, since WINDOW is a word of SQL: breakdown(\"window\" := 'host')"
)
_HINTS = ("Did you mean", "Candidate bindings")
_NO_TABLE = re.compile(r'Table with name "?(\w+)"? does not exist')
_NO_FUNCTION = re.compile(r'Table Function with name "?(\w+)"? does not exist')
_TABLES = (
    "'traceweave schema' or run.schema() in Python lists the tables, run.register() makes one of a"
    " frame"
)


def ask(
    con: duckdb.DuckDBPyConnection, query: str, params: Parameters | None, batch_rows: int
) -> pa.RecordBatchReader:
    """Return the rows of a query, so many per batch; analyses are functions in it, and its last
    statement takes `params`. Raises QueryError.
    """
    try:
        relation = None
        statements = _statements(con, query)
        for place, (kind, sql) in enumerate(statements, start=1):
            values = params if place == len(statements) else None
            relation = analyses.with_analyses(
                con, sql, partial(con.sql, sql, params=values), values
            )
            if kind == "CREATE":
                _refuse_hiding(con)
        if relation is None:
            raise QueryError("the query is empty; write a SELECT")
        return relation.to_arrow_reader(batch_rows)
    except duckdb.Error as error:
        raise QueryError(explain(error)) from error


def ask_own(
    con: duckdb.DuckDBPyConnection,
    analysis: analyses.Analysis,
    params: Mapping[str, object],
    batch_rows: int,
) -> pa.RecordBatchReader:
    """Return the rows of an analysis of one's own, which may do no more than a query.

    Raises QueryError, also where its rows have other columns than its header says.
    """
    try:
        sql = analyses.prepare(con, analysis, analysis.bind(params))
    except duckdb.Error as error:
        raise QueryError(f"{analysis.name}: {explain(error)}") from error
    rows = ask(con, sql, None, batch_rows)
    said = [column.name for column in analysis.columns]
    if said and rows.schema.names != said:
        raise QueryError(
            f"{analysis.name}: its rows have the columns {', '.join(rows.schema.names)}, its header"
            f" says {', '.join(said)}"
        )
    return rows


def _statements(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[str, str]]:
    """Return the statements of a query, each with its kind, or that of what it explains; refuse
    those that open or write files.

    DuckDB's own lock has two holes here: what it attached it lets one detach and attach again for
    writing, and COPY may write the log beside the database.
    """
    statements = con.extract_statements(query)
    kinds = [_kind(statement) for statement in statements]
    if "SELECT" in kinds[:-1]:
        raise QueryError(
            "a query gives the rows of one SELECT, its last statement; ask several one by one"
        )
    for place, statement in enumerate(statements):
        if kinds[place] == "EXPLAIN":
            explained = con.extract_statements(_EXPLAIN.sub("", statement.query, count=1))
            kinds[place] = _kind(explained[0]) if len(explained) == 1 else "unknown"
        if kinds[place] not in _WITHIN:
            raise QueryError(_ONLY_READ)
        if kinds[place] in _CHANGING and _OWN in statement.query.lower():
            raise QueryError(f"names that begin with {_OWN} are kept for what answers need")
    return [(kind, statement.query) for kind, statement in zip(kinds, statements, strict=True)]


def _refuse_hiding(con: duckdb.DuckDBPyConnection) -> None:
    """Drop what would be taken for a table of the run, or what analyses call, and raise QueryError.

    DuckDB's catalog is asked: there are many ways to make something.
    """
    made = con.execute(
        _HIDING,
        {
            "relations": [relation.name for relation in public_relations()],
            "analyses": [analysis.name for analysis in analyses.catalog()],
            "own": _OWN,
        },
    ).fetchall()
    for kind, database, schema, name in made:
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (database, schema, name))
        con.execute(f"DROP {kind} IF EXISTS {quoted} CASCADE")
    if made:
        kind, *_, name = made[0]
        what = "a function" if kind.startswith("MACRO") else "a table of the run"
        raise QueryError(f"{name!r} is {what}; give yours another name")


def _kind(statement: duckdb.Statement) -> str:
    try:
        kind = statement.type.name
    except ValueError:  # DuckDB knows kinds that its Python package does not
        return "unknown"
    if kind == "PRAGMA" and _first_word(statement.query) != "pragma":
        return "unknown"  # COPY FROM DATABASE, says DuckDB, is one
    return kind


def _first_word(sql: str) -> str:
    words = [at for at, kind in duckdb.tokenize(sql) if kind != duckdb.token_type.comment]
    return sql.encode()[words[0] :].split(maxsplit=1)[0].decode().lower() if words else ""


def explain(error: duckdb.Error) -> str:
    """Return one line on what is wrong with a query, in the words of this program."""
    text = str(error)
    if _CHANGES.search(text) or isinstance(error, duckdb.PermissionException):
        return _ONLY_READ
    what = first_line(error).rstrip("!")
    lines = [line.strip() for line in text.splitlines()[1:]]
    hint = next((line for line in lines if line.startswith(_HINTS)), "")
    near = next((line for line in lines if line.startswith("LINE")), "")
    if isinstance(error, duckdb.ParserException) and 'at or near "window"' in what:
        hint = _QUOTE_WINDOW
    if missing := _NO_TABLE.match(what):
        return _no_table(what, missing[1], hint)
    if missing := _NO_FUNCTION.match(what):
        return _no_function(what, missing[1])
    return "; ".join(shortened(part) for part in (what, hint, near) if part)


def _no_table(what: str, name: str, hint: str) -> str:
    functions = {analysis.name: f"{analysis.name}()" for analysis in analyses.catalog()}
    if name.lower() in functions:
        return _is_function(name)
    tables = [relation.name for relation in public_relations()]
    temporary = re.findall(r'"(\w+)"', hint)
    near = nearest(name, [*tables, *temporary], cutoff=0.75)
    near = near or functions.get(nearest(name, functions) or "")
    meant = f"; did you mean {near}?" if near else ""
    return f"{what}{meant}; {_TABLES}"


def _no_function(what: str, name: str) -> str:
    known = [analysis.name for analysis in analyses.catalog()]
    if name.removeprefix("analysis_") in known:
        return _is_function(name.removeprefix("analysis_"))
    near = nearest(name, known)
    meant = "" if near is None else f"; did you mean {near}()?"
    return f"{what}{meant}; analyses are functions, {analyses.LIST}"


def _is_function(name: str) -> str:
    return f"{name!r} is an analysis; in SQL it is a function: FROM {name.lower()}()"
