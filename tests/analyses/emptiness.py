"""What has to have rows for a SELECT to have some, proved from its syntax tree.

`needs(con, sql)` are the names of tables and table functions each of which, if it has no rows,
leaves the SELECT without any. It may miss some, and names none too many: where a node is not
known, nothing is needed."""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import duckdb

from traceweave.analyses.parsed import tree
from traceweave.analyses.runner import definitions

Node: TypeAlias = dict[str, Any]
Names: TypeAlias = frozenset[str]

NOTHING: Names = frozenset()


def needs(sql: str) -> Names:
    """Return the tables and table functions without whose rows a SELECT has none, those that shared
    macros and tables of ours read among them."""
    with duckdb.connect() as con:
        read = json.loads(tree(con, sql))
    assert not read["error"], read
    return _of_query(read["statements"][0]["node"], {})


@cache
def _of_shared(name: str) -> Names:
    """Return what rows of a shared macro or table need, itself among them."""
    definition = definitions().get(name)
    if definition is None or definition.sort == "macro":
        return frozenset((name,))
    return needs(definition.body) | {name}


def _of_query(node: Node, known: Mapping[str, Names]) -> Names:
    for entry in node.get("cte_map", {}).get("map", ()):
        known = {**known, entry["key"]: _of_query(entry["value"]["query_node"], known)}
    if node["type"] == "SET_OPERATION_NODE":
        sides = [_of_query(child, known) for child in node["children"]]
        if node["setop_type"].startswith("UNION"):
            return frozenset.intersection(*sides)
        return sides[0]
    if node["type"] == "RECURSIVE_CTE_NODE":
        return _of_query(node["left"], known)
    if node["type"] != "SELECT_NODE" or _has_a_row_of_nothing(node):
        return NOTHING
    return _of_source(node["from_table"], known) | _of_condition(node.get("where_clause"), known)


def _of_source(node: Node, known: Mapping[str, Names]) -> Names:
    if node["type"] == "BASE_TABLE":
        name = node["table_name"]
        return known[name] if name in known else _of_shared(name)
    if node["type"] == "TABLE_FUNCTION":
        return _of_shared(node["function"]["function_name"])
    if node["type"] == "SUBQUERY":
        return _of_query(node["subquery"]["node"], known)
    if node["type"] != "JOIN":
        return NOTHING
    left, right = (_of_source(node[side], known) for side in ("left", "right"))
    return {"INNER": left | right, "SEMI": left | right, "LEFT": left, "ANTI": left}.get(
        node["join_type"], right if node["join_type"] == "RIGHT" else left & right
    )


def _of_condition(node: Node | None, known: Mapping[str, Names]) -> Names:
    """Return what `x IN (SELECT ...)` and EXISTS in a condition need."""
    if node is None:
        return NOTHING
    if node["type"] == "CONJUNCTION_AND":
        return NOTHING.union(*(_of_condition(child, known) for child in node["children"]))
    if node["type"] == "SUBQUERY" and node["subquery_type"] in ("ANY", "EXISTS"):
        return _of_query(node["subquery"]["node"], known)
    return NOTHING


def _has_a_row_of_nothing(node: Node) -> bool:
    """Tell whether a SELECT may have a row though its source has none: it aggregates all."""
    if any(group == [] for group in node.get("group_sets") or ()):
        return True
    said = [*node["select_list"], node.get("having"), node.get("qualify")]
    if node.get("group_expressions"):
        return not any(_columns(one) for one in node["group_expressions"])
    if node["aggregate_handling"] == "FORCE_AGGREGATES":
        return not any(_columns(one) and not _aggregates(one) for one in node["select_list"])
    modifiers = node.get("modifiers") or []
    return any(map(_aggregates, [*said, *modifiers]))


def _columns(node: object) -> bool:
    return any(one.get("class") in ("COLUMN_REF", "STAR", "CONSTANT") for one in _within(node))


def _aggregates(node: object) -> bool:
    return any(
        one.get("class") == "FUNCTION" and _is_aggregate(one["function_name"])
        for one in _within(node)
    )


def _within(node: object) -> Iterator[Node]:
    """Yield the nodes of an expression, those of subqueries left out."""
    if isinstance(node, dict):
        if node.get("class") == "SUBQUERY":
            return
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _within(part)


@cache
def _is_aggregate(name: str) -> bool:
    definition = definitions().get(name)
    if definition is not None:
        with duckdb.connect() as con:
            read = json.loads(tree(con, definition.select()))
        return _aggregates(read["statements"][0]["node"])
    return name in _built_in() or name == "count_star"


@cache
def _built_in() -> Names:
    with duckdb.connect() as con:
        rows = con.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions()"
            " WHERE function_type = 'aggregate'"
        ).fetchall()
    return frozenset(name for (name,) in rows)
