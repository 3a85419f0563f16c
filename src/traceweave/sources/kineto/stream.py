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
from typing import IO

import numpy as np

from traceweave.errors import InputError
from traceweave.sources.unpack import BLOCK_BYTES, ByteStream

MAX_HEAD_BYTES = 256 << 20
"""A header larger than this (process groups of a huge job take megabytes) is no Kineto header."""

_ARRAY_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_FIRST_EVENT = re.compile(rb"\s*\{")
_ARRAY_END = re.compile(rb"\s*\]")


class EventStream:
    """Cuts one file into blocks of whole events; `head`, `tail` and `truncated` tell the rest.

    Attributes:
        head: bytes before the array, its opening bracket included.
        tail: bytes after the array, from its closing bracket on; b'' if the array never ends.
        truncated: bytes of an event that the file ends in the middle of.
        damaged: why the file could not be read to its end; None if it could.
    """

    def __init__(
        self,
        file: IO[bytes],
        report: Callable[[int], None] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._bytes = ByteStream(file, report, block_bytes)
        self.head = b""
        self.tail = b""
        self.truncated = b""
        self.damaged: str | None = None

    def blocks(self) -> Iterator[bytes]:
        """Yield `{...},{...}`: whole events, comma separated, without the array's brackets.

        Raises:
            InputError: there is no `traceEvents` array in the file.
        """
        pieces = self._bytes.pieces()
        buffer = self._skip_head(pieces)
        cutter = _cutter_for(buffer)
        while True:
            events, buffer, ended = cutter(buffer)
            if events:
                yield events
            if ended:
                self.tail = buffer + b"".join(pieces)
                break
            piece = next(pieces, b"")
            if not piece:
                self.truncated = buffer.strip().strip(b",")
                self.damaged = "the file ends inside its traceEvents array"
                break
            buffer += piece
        if self._bytes.damaged is not None:
            self.damaged = self._bytes.damaged

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
            if not _FIRST_EVENT.match(rest) and not _ARRAY_END.match(rest):
                rest += next(pieces, b"")
            return rest
        if self._bytes.damaged is not None:
            raise InputError(self._bytes.damaged)
        raise InputError("it has no traceEvents array")


_Cut = tuple[bytes, bytes, bool]
"""(whole events, rest of the buffer, whether the array ended right after them)"""


def _cutter_for(buffer: bytes) -> Callable[[bytes], _Cut]:
    layout = re.match(rb"\s*?(\r?\n[ \t]*)\{\s*?\r?\n", buffer)
    if layout is None:
        return _cut_structurally
    close = layout.group(1) + b"}"

    def cut_at_lines(buffer: bytes) -> _Cut:
        return _cut_at_lines(buffer, close)

    return cut_at_lines


def _cut_at_lines(buffer: bytes, close: bytes) -> _Cut:
    """Cut after the last line that closes an event; the array ends where it has no comma."""
    if _ARRAY_END.match(buffer):
        return b"", buffer.lstrip(), True
    last_comma = re.search(re.escape(close) + rb"(?=\s*\])", buffer)
    if last_comma is not None:
        end = last_comma.end()
        return buffer[:end].lstrip(b", \t\r\n"), buffer[end:].lstrip(), True
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
