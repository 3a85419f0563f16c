"""What a rule in SQL counts: the rows of its FROM and WHERE, which a failure names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

_PLAIN = ("group_expressions", "having", "sample", "qualify")


def rows_behind(con: duckdb.DuckDBPyConnection, sql: str) -> tuple[str, str] | None:
    """Return the query of the rows that a SELECT of one number is about, and a column in it.

    `SELECT sum(idle_ns) FROM rows WHERE rank = 3`: `SELECT * FROM rows WHERE rank = 3` and
    'idle_ns', '' where the number names no column. None where rows and number are not that plain:
    groups, FILTER, set operations.
    """
    parsed = json.loads(_scalar(con, "SELECT json_serialize_sql(?)", sql))
    if parsed["error"] or len(parsed["statements"]) != 1:
        return None
    node = parsed["statements"][0]["node"]
    if node["type"] != "SELECT_NODE" or any(node[key] for key in _PLAIN):
        return None
    if node["from_table"]["type"] == "EMPTY":
        return None
    parts = list(_parts(node["select_list"]))
    if any(part.get("filter") or part.get("class") == "SUBQUERY" for part in parts):
        return None
    columns = [part["column_names"][-1] for part in parts if "column_names" in part]
    everything = json.loads(_scalar(con, "SELECT json_serialize_sql(?)", "SELECT * FROM t"))
    node["select_list"] = everything["statements"][0]["node"]["select_list"]
    node["modifiers"] = []
    whole = _scalar(con, "SELECT json_deserialize_sql(?::JSON)", json.dumps(parsed))
    return whole, next(iter(columns), "")


def _parts(of: Any) -> Iterator[dict[str, Any]]:
    """Yield all nodes of an expression, in the order in which it is written."""
    if isinstance(of, dict):
        yield of
        of = list(of.values())
    if isinstance(of, list):
        for part in of:
            yield from _parts(part)


def _scalar(con: duckdb.DuckDBPyConnection, sql: str, value: str) -> str:
    [(text,)] = con.execute(sql, [value]).fetchall()
    return str(text)
