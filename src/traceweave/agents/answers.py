"""Answers that fit into the context of a model: few rows, and said so where there are more."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from traceweave.records import first_rows, json_rows

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 200
"""Rows of one answer."""

MOST_BYTES = 60_000
"""Of the rows of one answer as JSON; one row is given whatever its size."""

MOST_CELL = 10_000
"""Characters of one value."""

Answer = dict[str, Any]


ROWS_OF_EACH = 20
"""Rows of each of several tables in one answer."""


def first_of_each(tables: dict[str, list[Answer]]) -> tuple[dict[str, list[Answer]], list[str]]:
    """Return the first rows of tables that share one answer, and the names of those with more."""
    shown, more_in = {}, []
    for name, rows in tables.items():
        most_bytes = MOST_BYTES // len(tables)
        cut = map(shortened_cells, rows)
        shown[name], more = first_rows(cut, ROWS_OF_EACH, most_bytes, _bytes)
        if more:
            more_in.append(name)
    return shown, more_in


def some_of(rows: Iterable[Answer], skip: int) -> Answer:
    """Return rows of a table from the one numbered `skip` on, and whether there are more."""
    shown = map(shortened_cells, islice(rows, skip, None))
    found, more = first_rows(shown, MOST_ROWS, MOST_BYTES, _bytes)
    return {"rows": found, "more_rows": more}


def shortened_cells(row: Answer) -> Answer:
    """Return a row whose cells have at most MOST_CELL characters each, as JSON if they are lists
    or structures.
    """
    return {name: _shortened(value) for name, value in row.items()}


def _shortened(value: Any) -> Any:
    if isinstance(value, list | dict):
        text = orjson.dumps(value, default=str).decode()
        if len(text) <= MOST_CELL:
            return value
    elif isinstance(value, str) and len(value) > MOST_CELL:
        text = value
    else:
        return value
    return f"{text[:MOST_CELL]}… ({len(text)} characters)"


def _bytes(row: Answer) -> int:
    return len(orjson.dumps(row, default=str))


def answer(reader: pa.RecordBatchReader, skip: int = 0) -> Answer:
    """Return rows from the one numbered `skip` on, and whether there are more."""
    return some_of(map(orjson.loads, islice(json_rows(reader), skip, None)), 0)
