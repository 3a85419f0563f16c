"""The bytes of a Kineto file, cut at event boundaries.

A Kineto trace is one JSON object whose `traceEvents` array holds nearly all of its bytes.
`EventStream` yields that array as blocks of whole events, without ever holding the file, and keeps
the small rest (the other top-level keys).

Two ways to find the boundaries:

- line layout: Kineto and every pretty printer write an event's closing brace alone at the start of
  a line, at one fixed indent. A JSON string cannot hold a raw newline, so that line is always a
  boundary. Found at memory speed.
- structural: for everything else (one-line files, hand-made files) braces outside strings are
  counted with numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO

import numpy as np

from traceweave.errors import InputError
from traceweave.sources.unpack import BLOCK_BYTES, ByteStream

MAX_HEAD_BYTES = 256 << 20
"""A header larger than this (process groups of a huge job take megabytes) is no Kineto header."""

_LAYOUT_BYTES = 256
"""Bytes of the array that show how its events are laid out."""

_ARRAY_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ARRAY_END = re.compile(rb"\s*\]")


_Cut = tuple[bytes, bytes, bool]
"""(whole events, rest of the buffer, whether the array ended right after them)"""

Part = tuple[int | None, int | None]
"""The bytes of the unpacked file between which a part of the events lies; None: first, last.

Both must lie in the event array, before the line that ends its last event. The event that closes
first after a bound belongs to the part before it.
"""


class EventStream:
    """Cuts one file into blocks of whole events; `head`, `tail` and `truncated` tell the rest.

    Given a `part` of a file in line layout, only the events that close in that stretch are cut
    out, so that several streams can share the work on one file.

    Attributes:
        head: bytes before the array, its opening bracket included.
        tail: bytes after the array, from its closing bracket on; b'' if the array never ends.
        truncated: bytes of an event that the file ends in the middle of.
        damaged: why the file could not be read to its end; None if it could.
        line_layout: whether boundaries were found by lines; known once blocks were cut.
        position: byte of the unpacked file up to which events were cut.
    """

    def __init__(
        self,
        file: IO[bytes],
        report: Callable[[int], None] | None = None,
        block_bytes: int = BLOCK_BYTES,
        part: Part | None = None,
    ) -> None:
        self._bytes = ByteStream(file, report, block_bytes)
        self._part = part
        self.head = b""
        self.tail = b""
        self.truncated = b""
        self.damaged: str | None = None
        self.line_layout = False
        self.position = 0

    def blocks(self) -> Iterator[bytes]:
        """Yield `{...},{...}`: whole events, comma separated, without the array's brackets.

        Raises:
            InputError: there is no `traceEvents` array in the file.
        """
        pieces = self._bytes.pieces()
        buffer = self._skip_head(pieces)
        self.position = len(self.head)
        close = _closing_line(buffer)
        self.line_layout = close is not None
        cut = _cut_structurally if close is None else partial(_cut_at_lines, close=close)
        if self._part is not None and close is not None:
            start, end = self._part
            if start is not None:
                buffer = self._skip_to(start, buffer, pieces, close)
            if end is not None:
                if self.position > end + len(close):
                    return  # one event spans the whole part
                cut = partial(self._cut_until, end, close=close)
        while True:
            events, rest, ended = cut(buffer)
            self.position += len(buffer) - len(rest)
            if events:
                yield events
            if ended:
                self.tail = rest + b"".join(pieces) if rest else b""
                break
            piece = next(pieces, b"")
            if not piece:
                self.truncated = rest.strip().strip(b",")
                self.damaged = "the file ends inside its traceEvents array"
                break
            buffer = rest + piece
        if self._bytes.damaged is not None:
            self.damaged = self._bytes.damaged

    def _skip_to(self, start: int, buffer: bytes, pieces: Iterator[bytes], close: bytes) -> bytes:
        """Drop the events that close before `start`, and the one that closes first after it."""
        boundary = _boundary(close)
        while (found := boundary.search(buffer, max(0, start - self.position))) is None:
            kept = buffer[-len(close) - _BETWEEN_EVENTS :]
            self.position += len(buffer) - len(kept)
            buffer = kept + next(pieces)
        end = found.end() if found[1] == b"," else found.start(1)
        self.position += end
        return buffer[end:]

    def _cut_until(self, end: int, buffer: bytes, close: bytes) -> _Cut:
        """Cut like `_cut_at_lines`, up to the event that closes first after `end`."""
        found = _boundary(close).search(buffer, max(0, end - self.position))
        if found is None or found[1] != b",":
            return _cut_at_lines(buffer, close)
        return buffer[: found.start(1)].lstrip(b", \t\r\n"), b"", True

    def _skip_head(self, pieces: Iterator[bytes]) -> bytes:
        """Read up to the array and return what follows its opening bracket."""
        head = b""
        for piece in pieces:
            head += piece
            start = 0 if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[") else None
            if start is not None:
                end = head.index(b"[") + 1
            elif match := _ARRAY_KEY.search(head):
                end = match.end()
            elif len(head) > MAX_HEAD_BYTES:
                break
            else:
                continue
            self.head = head[:end]
            rest = head[end:]
            while len(rest) < _LAYOUT_BYTES and (piece := next(pieces, b"")):
                rest += piece
            return rest
        if self._bytes.damaged is not None:
            raise InputError(self._bytes.damaged)
        raise InputError("it has no traceEvents array")


_BETWEEN_EVENTS = 64
"""White space that may lie between an event and what follows it."""


def _boundary(close: bytes) -> re.Pattern[bytes]:
    """Match the end of an event; group 1 is the comma, or the white space and bracket after it."""
    return re.compile(re.escape(close) + rb"(,|\s*\])")


def _closing_line(buffer: bytes) -> bytes | None:
    """Return how events end in the line layout, a newline first; None in other layouts."""
    layout = re.match(rb"\s*?(\r?\n[ \t]*)\{\s*?\r?\n", buffer)
    return None if layout is None else layout.group(1) + b"}"


def _cut_at_lines(buffer: bytes, close: bytes) -> _Cut:
    """Cut after the last line that closes an event; the array ends where it has no comma."""
    if _ARRAY_END.match(buffer):
        return b"", buffer.lstrip(), True
    # counting is several times faster than searching, and most buffers hold no end of the array
    if buffer.count(close) > buffer.count(close + b","):
        last = re.search(re.escape(close) + rb"(?=\s*\])", buffer)
        if last is not None:
            return buffer[: last.end()].lstrip(b", \t\r\n"), buffer[last.end() :].lstrip(), True
    end = buffer.rfind(close + b",")
    if end < 0:
        return b"", buffer, False
    end += len(close)
    return buffer[:end].lstrip(b", \t\r\n"), buffer[end + 1 :], False


def _cut_structurally(buffer: bytes) -> _Cut:
    """Cut after the last object that closes at the array's own level."""
    marks, depth = _depths(buffer)
    outside = np.flatnonzero(depth < 0)
    stop = len(marks) if not len(outside) else int(outside[0])
    closed = np.flatnonzero(depth[:stop] == 0)
    end = int(marks[closed[-1]]) + 1 if len(closed) else 0
    events = buffer[:end].lstrip(b", \t\r\n")
    if stop < len(marks):
        return events, buffer[int(marks[stop]) :], True
    return events, buffer[end:].lstrip(b", \t\r\n") if end else buffer, False


def _depths(buffer: bytes) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of braces and brackets outside strings, and the depth after each.

    `buffer` must begin outside any string, at depth 0.
    """
    plain = buffer
    if b"\\" in plain:  # escapes cannot hide a quote any more: \\ first, then \"
        plain = plain.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    octets = np.frombuffer(plain, np.uint8)
    quotes = np.flatnonzero(octets == ord('"'))
    folded = octets | 0x20  # [ ] become { }
    marks = np.flatnonzero((folded == ord("{")) | (folded == ord("}")))
    outside = (np.searchsorted(quotes, marks) & 1) == 0
    marks = marks[outside]
    steps = np.where(folded[marks] == ord("{"), 1, -1)
    return marks, np.cumsum(steps)
