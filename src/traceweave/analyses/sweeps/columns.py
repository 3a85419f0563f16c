"""Columns from Arrow to numpy and back, without a copy where there is one chunk.

Arrow's own functions for it import pandas first, which takes longer than many an analysis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def to_numpy(column: pa.Array | pa.ChunkedArray, null: int | None = None) -> npt.NDArray[Any]:
    """Return the numbers of a column, `null` where there is none; without it, all are there."""
    if isinstance(column, pa.ChunkedArray):
        parts = [to_numpy(chunk, null) for chunk in column.chunks]
        return np.concatenate([np.empty(0, _dtype(column)), *parts])
    dtype = _dtype(column)
    if not len(column):
        return np.empty(0, dtype)
    valid, data = column.buffers()
    numbers = np.frombuffer(data, dtype, len(column), column.offset * dtype.itemsize)
    if null is None or not column.null_count:
        return numbers
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")
    return np.where(bits[column.offset : column.offset + len(column)], numbers, null)


def to_arrow(values: npt.NDArray[np.generic]) -> pa.Array:
    """Return an array of numbers as a column."""
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(
        pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)]
    )


def _dtype(column: pa.Array | pa.ChunkedArray) -> np.dtype[np.generic]:
    # their names for integers are the same
    return np.dtype(str(column.type))
