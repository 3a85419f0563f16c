"""Statements as DuckDB parses them, each once per process, whatever the run and the connection.

What many small runs are asked, or two that are compared, is parsed longer than it is computed: of
`findings` on a run of two operations parsing is a seventh. What a statement names and calls, its
own lexer and parser tell.
"""

from __future__ import annotations

import re
from functools import lru_cache

import duckdb

from traceweave.errors import QueryError

MOST = 1_000
"""Statements that are kept: all that there are, with some values of their parameters."""

_NAMED = re.compile(r'"(table_name|function_name|key)":"(\w+)"')
"""In JSON, where quotes within a text have a backslash before them."""

_AROUND = ' \n\t"'


_parsed: dict[str, duckdb.Statement] = {}


def parsed(con: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return one statement for `con`, or any other connection, to run. Raises QueryError for more
    than one.
    """
    found = _parsed.get(sql)
    if found is None:
        found, *more = con.extract_statements(sql)
        if more:
            raise QueryError("an analysis or a rule is one SELECT")
        if len(_parsed) >= MOST:
            _parsed.clear()
        _parsed[sql] = found
    return found


def tree(con: duckdb.DuckDBPyConnection, sql: str) -> str:
    """Return the syntax tree of a SELECT as JSON; of anything else, and of what is no SQL, one with
    an error in it.
    """
    ((text,),) = con.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    return str(text)


@lru_cache(MOST)
def identifiers(sql: str) -> frozenset[str]:
    """Return the identifiers in a statement, in lower case: of tables, functions, columns and its
    own names. Twenty times as fast as a syntax tree.
    """
    tokens = duckdb.tokenize(sql)
    ends = [*(offset for offset, _ in tokens[1:]), len(sql)]
    return frozenset(
        sql[offset:end].strip(_AROUND).lower()
        for (offset, sort), end in zip(tokens, ends, strict=True)
        if sort == duckdb.token_type.identifier
    )


def named(con: duckdb.DuckDBPyConnection, sql: str) -> frozenset[str]:
    """Return the tables and functions that a SELECT names, in lower case, but for its own WITH."""
    found = _NAMED.findall(tree(con, sql))
    own = {name for sort, name in found if sort == "key"}
    return frozenset(
        name.lower() for sort, name in found if sort != "table_name" or name not in own
    )
