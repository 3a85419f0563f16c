"""Answers that fit into the context of a model: few rows, and said so where there are more."""

from __future__ import annotations

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

Answer = dict[str, Any]


ROWS_OF_EACH = 20
"""Rows of each of several tables in one answer."""


def first_of_each(tables: dict[str, list[Answer]]) -> tuple[dict[str, list[Answer]], list[str]]:
    """Return the first rows of tables that share one answer, and the names of those with more."""
    shown, more_in = {}, []
    for name, rows in tables.items():
        most_bytes = MOST_BYTES // len(tables)
        shown[name], more = first_rows(rows, ROWS_OF_EACH, most_bytes, _bytes)
        if more:
            more_in.append(name)
    return shown, more_in


def some_of(rows: list[Answer], skip: int) -> Answer:
    """Return rows of a table from the one numbered `skip` on, and whether there are more."""
    found, more = first_rows(rows[skip:], MOST_ROWS, MOST_BYTES, _bytes)
    return {"rows": found, "more_rows": more}


def _bytes(row: Answer) -> int:
    return len(orjson.dumps(row, default=str))


def answer(reader: pa.RecordBatchReader, skip: int = 0) -> Answer:
    """Return rows from the one numbered `skip` on, and whether there are more."""
    rows, more = first_rows(islice(json_rows(reader), skip, None), MOST_ROWS, MOST_BYTES, len)
    return {"rows": [orjson.loads(row) for row in rows], "more_rows": more}
