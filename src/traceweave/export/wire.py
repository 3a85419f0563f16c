"""Protobuf's wire format for whole columns: every function maps arrays to one binary array.

Encoded like this, a million messages cost numpy and Arrow calls per column, not Python objects per
message. What comes out is byte for byte what the protobuf classes serialize: varints of minimal
length, fields in ascending order if the caller joins them so.
Format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

VARINT, FIXED64, LENGTH = 0, 1, 2
"""Wire types."""

_LIMITS = np.array([1 << (7 * groups) for groups in range(1, 10)], dtype=np.uint64)
"""The smallest number that needs one more group of seven bits."""

Binary = Any
"""A pyarrow BinaryArray, or bytes that stand on every row."""


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag of a field."""
    return varint_bytes(number << 3 | wire_type)


def varint_bytes(value: int) -> bytes:
    """Return one varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def varints(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> Binary:
    """Return integers as varints, negative ones as protobuf's int64; null where `missing`."""
    numbers = np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)
    lengths = np.searchsorted(_LIMITS, numbers, side="right").astype(np.int32) + 1
    width = int(lengths.max(initial=1))
    place = np.arange(width, dtype=np.uint64)
    groups = (numbers[:, None] >> (place * np.uint64(7))).astype(np.uint8) & np.uint8(0x7F)
    last = (lengths - 1)[:, None]
    groups |= (place.astype(np.int32) < last).astype(np.uint8) << np.uint8(7)
    data = groups if lengths.min(initial=width) == width else groups[place <= last]
    return from_lengths(lengths, data, missing)


def fixed64_fields(number: int, values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Binary:
    """Return a repeated fixed64 field: row i holds values[offsets[i]:offsets[i + 1]]."""
    head = np.frombuffer(tag(number, FIXED64), dtype=np.uint8)
    fields = np.empty((len(values), len(head) + 8), dtype=np.uint8)
    fields[:, : len(head)] = head
    fields[:, len(head) :] = np.ascontiguousarray(values, dtype="<i8").view(np.uint8).reshape(-1, 8)
    return from_lengths(np.diff(offsets) * fields.shape[1], fields)


def doubles(values: npt.NDArray[np.float64]) -> Binary:
    """Return doubles, eight bytes each."""
    data = np.ascontiguousarray(values, dtype="<f8").view(np.uint8)
    return from_lengths(np.full(len(values), 8), data)


def from_lengths(
    lengths: npt.NDArray[Any],
    data: npt.NDArray[np.uint8],
    missing: npt.NDArray[np.bool_] | None = None,
) -> Binary:
    """Return the binary array whose rows of the given lengths lie end to end in `data`."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    present = None
    if missing is not None and missing.any():
        present = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [present, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data).reshape(-1))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def join(*parts: Binary) -> Binary:
    """Return the parts of every row end to end. No part may be null: null_handling costs a lot."""
    return pc.binary_join_element_wise(*parts, b"")


def field(number: int, wire_type: int, values: Binary) -> Binary:
    """Return a field of varints or fixed64, empty where the value is null."""
    return _filled(pc.binary_join_element_wise(tag(number, wire_type), values, b""))


def message(number: int, body: Binary) -> Binary:
    """Return a field that holds a message or a string, empty where the body is null."""
    lengths = np.asarray(pc.binary_length(body).fill_null(0))
    head = varints(lengths)
    return _filled(pc.binary_join_element_wise(tag(number, LENGTH), head, body, b""))


def _filled(rows: Binary) -> Binary:
    return pc.fill_null(rows, b"") if rows.null_count else rows


def raw(rows: Binary) -> memoryview:
    """Return the bytes of all rows, end to end."""
    if not len(rows):
        return memoryview(b"")
    _, offsets, data = rows.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[rows.offset : rows.offset + len(rows) + 1]
    return memoryview(data)[ends[0] : ends[-1]]
