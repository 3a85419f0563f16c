"""The repair of events that are not JSON: what comes out parses, what is valid stays."""

from __future__ import annotations

import sys

import atheris
import orjson

with atheris.instrument_imports(include=["traceweave.sources"]):
    from traceweave.sources.kineto.repair import (
        Unparsed,
        repair_block,
        repair_event,
        rewrite_block,
    )


def repair(data: bytes) -> None:
    """Mend one event and one block of events."""
    given = atheris.FuzzedDataProvider(data)
    block = given.ConsumeBytes(len(data))
    try:
        valid = isinstance(orjson.loads(block), dict)
    except orjson.JSONDecodeError:
        valid = False
    event = repair_event(block)
    assert not valid or event == block
    assert event is None or isinstance(orjson.loads(event), dict)
    unparsed = Unparsed()
    mended = repair_block(block, unparsed)
    events = orjson.loads(b"[" + mended + b"]")
    assert all(isinstance(e, dict) for e in events)
    assert len(orjson.loads(b"[" + rewrite_block(mended) + b"]")) == len(events)
    assert events or unparsed.count or not block.strip(b", \t\r\n")


if __name__ == "__main__":
    atheris.Setup(sys.argv, repair)
    atheris.Fuzz()
