"""What the number of a rule is made of: the rows that are to blame, by rank and name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import duckdb

from traceweave.words import TABLE, duration, number, plural, shortened, size

MOST_ROWS = 3
"""Rows that a crossed limit names."""

NAMES = ("item", "kernel", "name", "op")
"""Columns that hold a name."""

KEYS = (*NAMES, "group_id", "cause", "rank", "step")
"""Columns that say what a row is, in the order in which people read them."""


def worst_rows(rows: duckdb.DuckDBPyRelation, column: str, *, least: bool = False) -> str:
    """Name the rows with the largest values of a column, or the `least`; '' if nothing names them.

    Raises duckdb.Error.
    """
    keys = [key for key in KEYS if key in rows.columns and key != column]
    if not keys:
        return ""
    ordered = rows.filter(f'"{column}" IS NOT NULL').order(f'"{column}" {"" if least else "DESC"}')
    worst = ordered.limit(MOST_ROWS).to_arrow_table().to_pylist()
    more = sum(count for (count,) in rows.aggregate("count(*)").fetchall()) - len(worst)
    named = "; ".join(_row(row, keys, column) for row in worst)
    return f"{named}; and {plural(more, 'more row')}" if more > 0 else named


def _row(row: Mapping[str, Any], keys: list[str], column: str) -> str:
    said = [
        shortened(str(row[key])) if key in NAMES else f"{key} {row[key]}"
        for key in keys
        if row[key] is not None
    ]
    value = row[column]
    if isinstance(value, int | float):
        return f"{', '.join(said)}: {_written(column, value)}"
    return ", ".join(said)


def _written(column: str, value: float) -> str:
    if column.endswith("_ns"):
        return duration(value, TABLE)
    return size(value, TABLE) if column.endswith("bytes") else number(value, TABLE)
