"""The slicer of the Kineto event array: any bytes, any block size."""

from __future__ import annotations

import io
import json
import sys

import atheris

with atheris.instrument_imports(include=["traceweave.sources"]):
    from traceweave.errors import InputError
    from traceweave.sources.kineto.properties import parse_properties
    from traceweave.sources.kineto.stream import EventStream


def slice_bytes(data: bytes) -> None:
    """Cut a file into events, and compare with what a JSON parser finds in it."""
    given = atheris.FuzzedDataProvider(data)
    block_bytes = given.ConsumeIntInRange(1, 300)
    text = given.ConsumeBytes(len(data))
    stream = EventStream(io.BytesIO(text), block_bytes=block_bytes, max_event_bytes=2_000)
    try:
        blocks = list(stream.blocks())
    except InputError:
        return
    parse_properties(stream.head, stream.tail)
    try:
        events = json.loads(text)
    except (ValueError, RecursionError):
        return
    events = events.get("traceEvents") if isinstance(events, dict) else events
    if isinstance(events, list) and all(isinstance(e, dict) for e in events):
        seen = json.loads(b"[" + b",".join(blocks) + b"]")
        whole = not stream.left_out and text.count(b'"traceEvents"') <= 1
        assert not whole or seen == events, (events, seen)


if __name__ == "__main__":
    atheris.Setup(sys.argv, slice_bytes)
    atheris.Fuzz()
