"""Columns of numbers as the page takes them: a line of JSON, then the bytes of the columns.

The head names what is meant; its key `columns` lists name, type and length of each column, in the
order of the bytes, each of which begins at a multiple of 8 from the end of the head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

_TYPES = {
    "u1": np.uint8,
    "u2": np.uint16,
    "i4": np.int32,
    "f4": np.float32,
    "f8": np.float64,
}


_EXACT = 2**53


def exact(value: int) -> int | str:
    """Return a number as JavaScript can hold it, which has doubles only: larger ones as text."""
    return value if abs(value) < _EXACT else str(value)


def pack(head: Mapping[str, Any], columns: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return head and columns as bytes. Columns are of a type in _TYPES."""
    listed = [[name, column.dtype.str[1:], len(column)] for name, column in columns.items()]
    assert all(kind in _TYPES for _, kind, _ in listed)
    first = orjson.dumps({**head, "columns": listed})
    return b"".join([_padded(first + b"\n", b" "), *_bytes(columns)])


def _bytes(columns: Mapping[str, npt.NDArray[Any]]) -> Iterator[bytes]:
    for column in columns.values():
        yield _padded(column.astype(column.dtype.newbyteorder("<")).tobytes(), b"\0")


def _padded(data: bytes, by: bytes) -> bytes:
    missing = -len(data) % 8
    return data[:-1] + by * missing + data[-1:] if by == b" " else data + by * missing


def numbers(table: pa.Table, **types: str) -> dict[str, npt.NDArray[Any]]:
    """Return columns of a table as arrays of these types."""
    return {
        name: table[name].to_numpy().astype(_TYPES[kind], copy=False)
        for name, kind in types.items()
    }


def coded(table: pa.Table, column: str) -> tuple[npt.NDArray[Any], list[str]]:
    """Return a column of texts as numbers into a list of those that there are."""
    whole = table[column].combine_chunks().dictionary_encode()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.combine_chunks()
    return whole.indices.to_numpy(zero_copy_only=False).astype(
        np.int32
    ), whole.dictionary.to_pylist()
