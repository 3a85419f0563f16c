"""Rows as plain Python values, exact, such as CSV and JSON can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from traceweave.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


def first_rows(
    rows: Iterable[T], most: int, most_bytes: int, size: Callable[[T], int]
) -> tuple[list[T], bool]:
    """Return as many rows as `most` and `most_bytes` allow, and whether there are more.

    `size` is what a row has of the bytes; one row is given whatever its size.
    """
    found: list[T] = []
    total = 0
    for row in rows:
        total += size(row)
        if len(found) == most or (found and total > most_bytes):
            return found, True
        found.append(row)
    return found, False


def batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a query, which runs while they are read. Raises QueryError."""
    import pyarrow as pa

    from traceweave.store.database import first_line

    try:
        yield from reader
    except (OSError, pa.ArrowInvalid) as error:
        raise QueryError(first_line(error)) from error


def rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return the rows of a batch as Python's values. Raises QueryError for one that is none."""
    try:
        columns = [column.to_pylist() for column in batch.columns]
    except (OverflowError, ValueError) as error:
        raise QueryError(f"a value cannot be shown ({error}); cast it to VARCHAR") from error
    return zip(*columns, strict=True)


def json_rows(reader: pa.RecordBatchReader) -> Iterator[bytes]:
    """Yield each row as a JSON object, its integers exact."""
    import orjson

    names = reader.schema.names
    for batch in batches(reader):
        for row in rows(batch):
            yield orjson.dumps(dict(zip(names, row, strict=True)), default=plain)


def plain(value: object) -> object:
    """Return a value that CSV and JSON can hold, exact."""
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, int | float | str | list | dict) else str(value)


def _number(value: Decimal) -> object:
    """Return a decimal as a number if a double holds it exactly enough to print it again."""
    if value == value.to_integral_value() and abs(value) < 2**63:
        return int(value)
    return float(value) if Decimal(repr(float(value))) == value else str(value)
