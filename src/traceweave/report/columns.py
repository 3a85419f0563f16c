"""Tables of the page whose rows are those of an analysis.

What kind of value a column has follows from the end of its name and its type, and its explanation
is that of the analysis: both are written once, in the header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from traceweave import words
from traceweave.analyses.catalog import find
from traceweave.report.page import Column, Kind, Table
from traceweave.report.query import Row
from traceweave.store.schema import Column as Documented

_ENDINGS: tuple[tuple[str, Kind], ...] = (("_gbps", "rate"), ("_ratio", "ratio"))
"""What a page alone shows in a way of its own; the others are in words.kind."""

_NUMBERS = {"rank", "step", "group_id", "device", "stream"}
"""Integers that tell things apart, and count nothing."""

_SENTENCES = {"evidence", "advice", "title"}


def rows_table(
    name: str,
    caption: str,
    analysis: str,
    labels: Mapping[str, str | Column],
    rows: Iterable[Row],
    **more: Any,
) -> Table:
    """Return a table of rows of an analysis, by the names of their columns.

    A label that is empty is the name in words; a Column also says how a column is shown, or stands
    for what is none of the analysis. `more` are further fields of the table.
    """
    documented = {column.name: column for column in find(analysis).columns}
    columns = tuple(_column(documented.get(key), label) for key, label in labels.items())
    return Table(
        name, caption, columns, tuple(tuple(r[key] for key in labels) for r in rows), **more
    )


def _column(documented: Documented | None, label: str | Column) -> Column:
    shown = label if isinstance(label, Column) else Column(label)
    if documented is None:
        return shown
    return replace(
        shown,
        label=shown.label or in_words(documented.name),
        kind=_kind(documented) if shown.kind == "text" else shown.kind,
        note=shown.note or documented.meaning,
    )


def in_words(name: str) -> str:
    """Return the heading of a column by its name."""
    return words.bare(name).removesuffix("_id").replace("_", " ").capitalize()


def _kind(column: Documented) -> Kind:
    kind = words.kind(column.name)
    if kind in ("duration", "bytes", "percent"):
        return kind
    for ending, own in _ENDINGS:
        if column.name.endswith(ending):
            return own
    if column.type in ("INTEGER", "BIGINT"):
        return "int" if column.name in _NUMBERS else "count"
    if column.type == "VARCHAR" and column.name not in _SENTENCES:
        return "name"
    return "number" if column.type == "DOUBLE" else "text"
