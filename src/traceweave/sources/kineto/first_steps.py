"""The steps that a Kineto file marks, and reading no more of it than the first of them.

What is later is mostly left out before it is parsed, and to the event by first_steps.sql.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import chain, pairwise

import duckdb

from traceweave.sources.kineto.cut import BOUNDARY
from traceweave.sources.model import Beginning, Step, Trace
from traceweave.sources.unpack import ByteStream
from traceweave.vocabulary import script

_MARK = b"ProfilerStep#"
_MARK_BYTES = 1 << 10
"""No event that marks a step takes more."""

_TIME = rb'"?(-?\d+(?:\.\d+)?)"?'
_STEP = re.compile(
    rb'"cat"\s*:\s*"(?:user_annotation|cpu_op)"\s*,\s*"name"\s*:\s*"ProfilerStep#(\d{1,9})"'
    rb'[^{}]*?"ts"\s*:\s*' + _TIME + rb'\s*,\s*"dur"\s*:\s*' + _TIME + rb"\s*[,}]"
)
_START = re.compile(rb'"ts"\s*:\s*' + _TIME)
_ON_DEVICE = re.compile(rb'"cat"\s*:\s*"(?:kernel|(?:gpu_)?mem|mtia_ccp)', re.I)
"""The device's categories of staging.sql."""

PIECE_BYTES = 128 << 10
"""Events are sorted by time, but those of each thread and of the device for themselves, so of such
a piece all or none are late, mostly."""


def steps(trace: Trace) -> Iterator[Step]:
    """Yield the steps of the loop that a file marks, in the order of the file, which is read only
    as far as they are asked for.

    Raises InputError if it unpacks to more than it may.
    """
    with trace.path.open("rb") as file:
        before = b""
        for piece in ByteStream(file, most_bytes=trace.most_bytes).pieces():
            text = before + piece
            for mark in _STEP.finditer(text) if _MARK in text else ():
                if mark.end() > len(before):
                    start, length = _ns(mark[2]), _ns(mark[3])
                    yield Step(int(mark[1]), start, start + length)
            before = text[-_MARK_BYTES:]


def _ns(microseconds: bytes) -> int:
    return int(Decimal(microseconds.decode()) * 1000)


def without_later(pieces: Iterator[bytes], beginning: Beginning) -> Iterator[bytes]:
    """Leave whole events out of the text of a trace, where a piece shows nothing of a recording's
    beginning.
    """
    left_out = b""
    for piece, following in pairwise(chain(pieces, [b""])):
        border = BOUNDARY.search(piece) if following and _is_late(piece, beginning) else None
        if border is None:
            yield _after_events(left_out) + piece
        elif not left_out:
            yield piece[: border.start() + 1]
        left_out = piece if border else b""


def _is_late(piece: bytes, beginning: Beginning) -> bool:
    # every event counts: of a thread a few may stand among later ones of others
    first_ns = 1000 * min(map(float, _START.findall(piece)), default=-math.inf)
    return first_ns >= beginning.device_ns or (
        first_ns >= beginning.end_ns and _ON_DEVICE.search(piece) is None
    )


def _after_events(piece: bytes) -> bytes:
    """Return what follows the last event that ends in a piece."""
    *_, border = chain([None], BOUNDARY.finditer(piece))
    return piece if border is None else piece[border.start() + 1 :]


def leave_out_later(con: duckdb.DuckDBPyConnection, of: Mapping[int, Beginning]) -> None:
    """Take out of `new_events` what is later than the beginning `of` its file, by source_id."""
    if of:
        ends = [beginning.end_ns for beginning in of.values()]
        con.execute(script(__package__, "first_steps.sql"), [list(of), ends])
