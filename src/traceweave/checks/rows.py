"""What the number of a rule is made of: the rows that are to blame, by rank and name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import duckdb

from traceweave.vocabulary import fitted, readable
from traceweave.words import LONG_NAME, cell, plural

MOST_ROWS = 3
"""Rows that a crossed limit names."""

NAMES = ("item", "kernel", "name", "op", "path")
"""Columns that hold a name."""

KEYS = (*NAMES, "group_id", "cause", "rank", "step")
"""Columns that say what a row is, in the order in which people read them."""

_ALIKE = "rows_alike"


def worst_rows(rows: duckdb.DuckDBPyRelation, column: str, *, least: bool = False) -> str:
    """Name the rows with the largest values of a column, or the `least`; '' if nothing names them.

    Without a column ('') it counts the rows that are named alike. Raises duckdb.Error.
    """
    keys = [key for key in KEYS if key in rows.columns and key != column]
    if not keys:
        return ""
    count = sum(count for (count,) in rows.aggregate("count(*)").fetchall())
    if column not in rows.columns:
        rows = rows.aggregate(f"{', '.join(keys)}, count(*) AS {_ALIKE}", ", ".join(keys))
        column, least = _ALIKE, False
    order = f'"{column}" {"" if least else "DESC"}, {", ".join(keys)}'
    worst = rows.filter(f'"{column}" IS NOT NULL').order(order).limit(MOST_ROWS)
    found = worst.to_arrow_table().to_pylist()
    more = count - sum(row.get(_ALIKE, 1) for row in found)
    named = "; ".join(_said(found, keys, column))
    return f"{named}; and {plural(more, 'more row')}" if more > 0 else named


def _said(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], column: str) -> list[str]:
    names = [str(row[key]) for row in rows for key in keys if key in NAMES]
    short = readable(names)
    shown = fitted(list(short.values()), LONG_NAME)
    said = []
    for row in rows:
        parts = [
            _part(key, str(row[key]), shown[short[str(row[key])]] if key in NAMES else "")
            for key in keys
            if row[key] is not None
        ]
        said.append(", ".join(parts) + _value(column, row[column]))
    return said


def _part(key: str, value: str, name: str) -> str:
    """Return what a column says of a row: 'rank 3', a name, the last part of a path."""
    if key == "path":
        return PurePath(value).name
    return name or f"{key} {value}"


def _value(column: str, value: object) -> str:
    if column == _ALIKE and isinstance(value, int):
        return f": {plural(value, 'row')}"
    return f": {cell(column, value)}" if isinstance(value, int | float) else ""
