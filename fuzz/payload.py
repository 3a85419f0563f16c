"""The decoder of NVTX payloads: blobs of any bytes under schemas of any layout."""

from __future__ import annotations

import sys

import atheris
import numpy as np
import pyarrow as pa

with atheris.instrument_imports(include=["traceweave.sources"]):
    from traceweave.sources.nsys import payload

TYPES = sorted(set(payload._ENTRY_TYPES.values()))


def decode(data: bytes) -> None:
    """Decode blobs whose headers are near enough to right to get far."""
    given = atheris.FuzzedDataProvider(data)
    schemas = {
        given.ConsumeIntInRange(0, 5): tuple(
            payload.Entry(
                f"e{i}", given.ConsumeIntInRange(0, 1 << 20), given.PickValueInList(TYPES)
            )
            for i in range(given.ConsumeIntInRange(0, 4))
        )
        for _ in range(given.ConsumeIntInRange(0, 3))
    }
    blobs: list[bytes | None] = []
    while given.remaining_bytes() > 0:
        if given.ConsumeIntInRange(0, 7) == 0:
            blobs.append(None)
            continue
        header = b"".join(
            given.ConsumeIntInRange(0, most).to_bytes(8, "little")
            for most in (2**64 - 1, 5, 2**64 - 1 if given.ConsumeBool() else 64, 64)
        )
        blob = header + given.ConsumeBytes(given.ConsumeIntInRange(0, 80))
        blobs.append(blob[: given.ConsumeIntInRange(0, 120)])
    ids = np.arange(100, 100 + len(blobs), dtype=np.int64)
    rows, resisted = payload.decode(ids, pa.array(blobs, pa.binary()), schemas)
    rows.validate(full=True)
    present = {100 + i for i, blob in enumerate(blobs) if blob is not None}
    assert set(rows["op_id"].to_pylist()) <= present
    assert 0 <= resisted <= len(present)
    for blob in blobs[:3]:
        if blob is not None:
            payload.decode_one(blob, schemas)


if __name__ == "__main__":
    atheris.Setup(sys.argv, decode)
    atheris.Fuzz()
