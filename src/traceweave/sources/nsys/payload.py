"""Decoding the extended NVTX payloads that NCCL attaches to its ranges.

A blob (`NVTX_EVENTS.binaryData`, exported with --include-blobs=true) is a header of four 64-bit
words, of which the second is the schema id, the third the size and the fourth the offset of the
payload, then the payload as a C struct. Two independent readers use this layout; NVIDIA documents
none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave.sources.nsys.export import Export

_HEADER_BYTES = 32
_STATIC_SCHEMA = 1 << 24
_LONGEST_BLOB = 1 << 20

# NVTX payload entry types (nvToolsExtPayload.h) as little-endian numpy types
_ENTRY_TYPES: Mapping[int, str] = {
    3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<i8", 8: "<u8", 9: "<i8", 10: "<u8", 11: "<i1",
    12: "<u1", 13: "<i2", 14: "<u2", 15: "<i4", 16: "<u4", 17: "<i8", 18: "<u8", 19: "<f4",
    20: "<f8", 22: "<u8", 23: "<u8",
}  # fmt: skip

ENTRIES = pa.schema([("op_id", pa.int64()), ("entry", pa.string()), ("value", pa.string())])


@dataclass(frozen=True)
class Entry:
    """One field of a payload: its name, where it lies and its numpy type."""

    name: str
    offset: int
    dtype: str

    @property
    def end(self) -> int:
        """Where it ends in the payload."""
        return self.offset + np.dtype(self.dtype).itemsize


Schemas = Mapping[int, tuple[Entry, ...]]


def read_schemas(export: Export) -> Schemas:
    """Return the fields that can be decoded, by schema id; processes repeat the same schemas."""
    table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
    if not export.has(table, "schemaId", "idx", "type", "name", "offset"):
        return {}
    schemas: dict[int, list[Entry]] = {}
    rows = export.rows(
        f'SELECT DISTINCT schemaId, idx, type, name, coalesce("offset", 0) FROM {table}'
        " ORDER BY schemaId, idx"
    )
    for schema, _, type_, name, offset in rows:
        # a type in the range of schemas that is not a plain number is an enum of four bytes
        dtype = _ENTRY_TYPES.get(type_) or ("<u4" if (type_ or 0) >= _STATIC_SCHEMA else None)
        if dtype and name and 0 <= offset < _LONGEST_BLOB:
            schemas.setdefault(schema, []).append(Entry(str(name), offset, dtype))
    return {schema: tuple(entries) for schema, entries in schemas.items()}


def reduction_enum(export: Export) -> int | None:
    """Return the type id of NCCL's 'Reduction operation' enum, which differs by NCCL version."""
    table = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
    if not export.has(table, "name", "type"):
        return None
    rows = export.rows(f"SELECT max(type) FROM {table} WHERE name = 'Reduction operation'")
    return rows[0][0] - _STATIC_SCHEMA if rows and isinstance(rows[0][0], int) else None


def decode(
    op_ids: npt.NDArray[np.int64], blobs: pa.Array, schemas: Schemas
) -> tuple[pa.Table, int]:
    """Return the fields of many blobs as (op_id, entry, value) rows, and how many blobs resist."""
    import pyarrow.compute as pc  # most exports have no blobs, and it takes longer than a small one

    present = pc.is_valid(blobs).to_numpy(zero_copy_only=False)
    op_ids, blobs = op_ids[present], blobs.drop_null()
    lengths = pc.binary_length(blobs).to_numpy(zero_copy_only=False)
    whole = lengths >= _HEADER_BYTES
    kept = blobs.filter(pa.array(whole))
    ids, sizes = op_ids[whole], lengths[whole].astype(np.uint64)
    schema_ids = _field(kept, 8, "<u8")
    payload_bytes, offsets = _field(kept, 16, "<u8"), _field(kept, 24, "<u8")
    # each term alone is checked first: the sum of two hostile ones wraps around
    possible = (payload_bytes <= sizes) & (offsets <= sizes)
    stated = possible & (offsets >= _HEADER_BYTES) & (offsets + payload_bytes <= sizes)
    offsets = np.where(stated, offsets, np.uint64(_HEADER_BYTES))
    fits = (payload_bytes <= sizes) & (offsets + payload_bytes <= sizes)
    decoded = 0
    tables = [ENTRIES.empty_table()]
    # what a blob holds beyond its fields makes it no other shape
    known, places = np.unique(schema_ids, return_inverse=True)
    ends = [max((e.end for e in schemas.get(int(schema), ())), default=0) for schema in known]
    reach = np.minimum(sizes, offsets + np.array(ends, np.uint64)[places])
    shapes = np.stack([schema_ids, offsets, reach], axis=1)
    for shape in np.unique(shapes[fits], axis=0):
        schema, start, size = (int(of) for of in shape)
        chosen = fits & (shapes == shape).all(axis=1)
        entries = schemas.get(schema, ())
        decoded += int(chosen.sum()) if entries else 0
        alike = kept.filter(pa.array(chosen))
        for entry in entries:
            if start + entry.end <= size:
                values = _field(alike, start + entry.offset, entry.dtype)
                tables.append(_column(ids[chosen], entry.name, values))
    return pa.concat_tables(tables), len(op_ids) - decoded


def decode_one(blob: bytes, schemas: Schemas) -> dict[str, int]:
    """Return the whole-number fields of one blob by name; empty if it cannot be decoded."""
    table, _ = decode(np.zeros(1, np.int64), pa.array([blob], pa.binary()), schemas)
    names, values = table["entry"].to_pylist(), table["value"].to_pylist()
    return {name: int(v) for name, v in zip(names, values, strict=True) if v.lstrip("-").isdigit()}


def _column(ids: npt.NDArray[np.int64], name: str, values: npt.NDArray[Any]) -> pa.Table:
    texts = pa.array(values).cast(pa.string())
    names = pa.array([name] * len(ids), pa.string())
    return pa.Table.from_arrays([pa.array(ids), names, texts], schema=ENTRIES)


def _field(blobs: pa.Array, at: int, dtype: str) -> npt.NDArray[Any]:
    """Return the value at the same byte of every blob; all blobs must reach that far."""
    import pyarrow.compute as pc

    width = np.dtype(dtype).itemsize
    cut = pc.binary_slice(blobs, at, at + width).cast(pa.binary(width))
    values = np.frombuffer(cut.buffers()[1], dtype=dtype)
    return values[cut.offset : cut.offset + len(cut)]
