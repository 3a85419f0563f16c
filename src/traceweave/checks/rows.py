"""What the number of a rule is made of: the rows that are to blame, by rank and name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from statistics import fmean
from typing import Any

import duckdb

from traceweave.vocabulary import fitted, readable
from traceweave.words import LONG_NAME, cell, folded, percent, plural

MOST_ROWS = 3
"""Rows that a crossed limit names."""

NAMES = ("item", "kernel", "name", "op", "path", "part", "measure", "fact", "sample")
"""Columns that hold a name."""

KEYS = (*NAMES, "rule", "group_id", "cause", "rank", "ranks", "step", "evidence")
"""Columns that say what a row is, in the order in which people read them."""

_NOT_KEPT = ("step", "evidence")
"""Columns that say another thing in another recording: its steps have other numbers."""

_ALIKE = "rows_alike"


def worst_rows(rows: duckdb.DuckDBPyRelation, column: str, *, least: bool = False) -> str:
    """Name the rows with the largest values of a column, or the `least`; '' if nothing names them.

    Without a column ('') it counts the rows that are named alike. Of the largest those that are 0
    are left out: they add nothing. Raises duckdb.Error.
    """
    keys = _keys(rows, column)
    if not keys:
        return ""
    if column in rows.columns and not least:
        rows = rows.filter(f'"{column}" IS DISTINCT FROM 0')
    count = sum(count for (count,) in rows.aggregate("count(*)").fetchall())
    if column not in rows.columns:
        if keys == ["rank"]:
            return _ranks_there(rows)
        rows = rows.aggregate(f"{', '.join(keys)}, count(*) AS {_ALIKE}", ", ".join(keys))
        column, least = _ALIKE, False
    order = f'"{column}" {"" if least else "DESC"}, {", ".join(keys)}'
    worst = rows.filter(f'"{column}" IS NOT NULL').order(order).limit(MOST_ROWS)
    found = worst.to_arrow_table().to_pylist()
    more = count - sum(row.get(_ALIKE, 1) for row in found)
    named = "; ".join(_said(found, keys, column))
    return f"{named}; and {plural(more, 'more row')}" if more > 0 else named


def changed_rows(
    rows: duckdb.DuckDBPyRelation,
    before: Sequence[duckdb.DuckDBPyRelation],
    column: str,
    *,
    least: bool = False,
) -> str:
    """Name what grew most, or shrank, beside the mean of the baselines, each with what it was.

    Rows that are named alike, in all steps, are put together: their mean, or without a column ('')
    their number. '' if nothing names them, or no baseline has any of them. Raises duckdb.Error.
    """
    keys = [key for key in _keys(rows, column) if key not in _NOT_KEPT]
    if not keys or not before:
        return ""
    then = [_by_name(one, keys, column) for one in before]
    was = {name: fmean(each) for name in then[0] if (each := [t[name] for t in then if name in t])}
    now = _by_name(rows, keys, column)
    change = {name: value - was[name] for name, value in now.items() if name in was}
    sign = -1 if least else 1
    worst = sorted(
        (name for name in change if sign * change[name] > 0), key=lambda name: -sign * change[name]
    )[:MOST_ROWS]
    shown = column or _ALIKE
    found = [dict(zip(keys, name, strict=True)) | {shown: now[name]} for name in worst]
    return "; ".join(
        f"{text}, was{_value(shown, was[name]).lstrip(':')}{_relative(change[name], was[name])}"
        for text, name in zip(_said(found, keys, shown), worst, strict=True)
    )


def _keys(rows: duckdb.DuckDBPyRelation, column: str) -> list[str]:
    types = dict(zip(rows.columns, map(str, rows.types), strict=True))
    # some analyses count ranks in the column `ranks`; the findings list them
    said = {key for key in types if key != "ranks" or types[key].endswith("[]")}
    return [key for key in KEYS if key in said and key != column]


def _by_name(
    rows: duckdb.DuckDBPyRelation, keys: Sequence[str], column: str
) -> dict[tuple[Any, ...], float]:
    if not set(keys) <= set(rows.columns):
        return {}
    number = f'avg("{column}")' if column else "count(*)"
    names = ", ".join(f'"{key}"' for key in keys)
    found = rows.aggregate(f"{names}, CAST({number} AS DOUBLE)", names).fetchall()
    return {
        tuple(tuple(part) if isinstance(part, list) else part for part in name): value
        for *name, value in found
        if value is not None
    }


def _ranks_there(rows: duckdb.DuckDBPyRelation) -> str:
    """Say of rows that only their ranks name which ranks have any: the others are missing."""
    ranks = [rank for (rank,) in rows.aggregate("rank", "rank").fetchall() if rank is not None]
    return (
        f"{'there is rank' if len(ranks) == 1 else 'there are ranks'} {folded(ranks)}"
        if ranks
        else ""
    )


def _relative(change: float, was: float) -> str:
    return f" ({percent(change / abs(was), signed=True)})" if was else ""


def _said(rows: Sequence[Mapping[str, Any]], keys: Sequence[str], column: str) -> list[str]:
    names = [str(row[key]) for row in rows for key in keys if key in NAMES]
    short = readable(names)
    shown = fitted(list(short.values()), LONG_NAME)
    said = []
    for row in rows:
        parts = [
            _part(key, row[key], shown[short[str(row[key])]] if key in NAMES else "")
            for key in keys
            if row[key] is not None and key != "evidence"
        ]
        evidence = f": {row['evidence']}" if row.get("evidence") else ""
        said.append(", ".join(parts) + (evidence or _value(column, row[column])))
    return said


def _part(key: str, value: Any, name: str) -> str:
    """Return what a column says of a row: 'rank 3', a name, the last part of a path."""
    if key == "path":
        return PurePath(value).name
    if key == "rule":
        return str(value)
    if key == "ranks":
        return f"{'rank' if len(value) == 1 else 'ranks'} {folded(value)}"
    return name or f"{key} {value}"


def _value(column: str, value: object) -> str:
    if column == _ALIKE and isinstance(value, int | float):
        return f": {plural(round(value), 'row')}"
    return f": {cell(column, value)}" if isinstance(value, int | float) else ""
