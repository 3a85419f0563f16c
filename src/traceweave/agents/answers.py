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


def answer(reader: pa.RecordBatchReader, skip: int = 0) -> Answer:
    """Return rows from the one numbered `skip` on, and whether there are more."""
    rows, more = first_rows(islice(json_rows(reader), skip, None), MOST_ROWS, MOST_BYTES, len)
    return {"rows": [orjson.loads(row) for row in rows], "more_rows": more}
