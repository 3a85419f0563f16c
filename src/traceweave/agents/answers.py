"""Answers that fit into the context of a model: few rows, and said so where there are more."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from traceweave.records import json_rows

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 200
"""Rows of one answer."""

MOST_BYTES = 60_000
"""Of the rows of one answer as JSON; one row is given whatever its size."""

Answer = dict[str, Any]


def answer(reader: pa.RecordBatchReader, skip: int = 0) -> Answer:
    """Return rows from the one numbered `skip` on, and whether there are more."""
    rows: list[Any] = []
    size = 0
    more = False
    for row in islice(json_rows(reader), skip, None):
        size += len(row)
        more = len(rows) == MOST_ROWS or bool(rows and size > MOST_BYTES)
        if more:
            break
        rows.append(orjson.loads(row))
    return {"rows": rows, "more_rows": more}
