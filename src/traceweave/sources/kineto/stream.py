"""The bytes of a Kineto file, cut at event boundaries.

A Kineto trace is one JSON object whose `traceEvents` array holds nearly all of its bytes.
`EventStream` yields that array as blocks of whole events, without ever holding the file, and keeps
the small rest (the other top-level keys). cut.py finds the boundaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import IO

from traceweave.errors import InputError
from traceweave.sources.kineto.cut import BETWEEN, BOUNDARY, array_start, cut
from traceweave.sources.unpack import BLOCK_BYTES, ZEROED, ZEROS, ByteStream

MAX_TOP_BYTES = 32 << 20
"""More than this before or after the events is refused: it would have to be held and parsed whole,
and what profilers write there, process groups of a huge job above all, takes a few megabytes."""

MAX_EVENT_BYTES = 64 << 20
"""A larger event is left out, so that memory stays bounded."""

EXAMPLE_BYTES = 200
"""Of an event that is left out, this much is kept to show."""

_KEY_BYTES = 4 << 20
"""In so much of the file the array is looked for beyond a key of its name that lies deeper."""

_BETWEEN_BYTES = 64
"""White space that may lie between an event and what follows it."""


class EventStream:
    """Cuts one file into blocks of whole events; `head`, `tail` and `truncated` tell the rest.

    `through` may leave events out of the pieces of its text.

    Attributes:
        head: bytes before the array, its opening bracket included.
        tail: bytes after the array, from its closing bracket on; b'' if the array never ends.
        truncated: bytes of an event that the file ends in the middle of.
        left_out: how each event began that was left out: too large, or overwritten by zeros.
        damaged: why the file could not be read to its end; None if it could.
        cut_short: the array never ends, or zeros are in it, so events may be missing.
    """

    def __init__(
        self,
        file: IO[bytes],
        report: Callable[[int], None] | None = None,
        block_bytes: int = BLOCK_BYTES,
        max_event_bytes: int = MAX_EVENT_BYTES,
        most_bytes: int | None = None,
        through: Callable[[Iterator[bytes]], Iterator[bytes]] = iter,
    ) -> None:
        self._through = through
        self._bytes = ByteStream(file, report, block_bytes, most_bytes)
        self._block_bytes = block_bytes
        self._max_event_bytes = max_event_bytes
        self.head = b""
        self.tail = b""
        self.truncated = b""
        self.left_out: list[bytes] = []
        self.damaged: str | None = None
        self.cut_short = False

    def blocks(self) -> Iterator[bytes]:
        """Yield `{...},{...}`: whole events, comma separated, without the array's brackets.

        Raises:
            InputError: there is no `traceEvents` array in the file, too much stands beside it, or
                it unpacks to more than `most_bytes`.
        """
        pieces = self._through(self._bytes.pieces())
        buffer = self._skip_head(pieces)
        last = False
        while True:
            text, zeros = _parted_at_zeros(buffer)
            events, rest, ended, more = cut(text, last=last and not zeros)
            if events:
                yield events
            if ended:
                self.tail = self._read_tail(rest + zeros, pieces)
                break
            buffer = rest + zeros
            if more:
                continue
            if zeros:
                self.cut_short = True
                buffer = self._skip_event(rest, zeros.lstrip(b"\0"), pieces, ZEROED)
                continue
            if last:
                self.truncated = rest.strip(BETWEEN)
                self.cut_short = True
                self.damaged = "the file ends inside its traceEvents array"
                break
            if len(rest) > self._max_event_bytes:
                why = f"an event is larger than {MAX_EVENT_BYTES >> 20} MiB"
                buffer = rest = self._skip_event(rest, rest, pieces, why)
            # an event that is larger is looked through again each time, so ever more is added
            coming = _gather(pieces, max(self._block_bytes, len(rest) // 2))
            last = not coming
            buffer = b"".join([rest, *coming])
        if self._bytes.damaged is not None:
            self.damaged = self._bytes.damaged

    def _skip_event(
        self, beginning: bytes, rest: bytes, pieces: Iterator[bytes], why: str
    ) -> bytes:
        """Drop an event that is in the way, of which `rest` is left; return what follows it."""
        self.left_out.append(beginning[:EXAMPLE_BYTES])
        self.damaged = self.damaged or why
        while (found := BOUNDARY.search(rest)) is None:
            kept = rest[-_BETWEEN_BYTES:]
            if not (piece := next(pieces, b"")):
                return b""
            rest = kept + piece
        return rest[found.start() + 1 :].lstrip(BETWEEN)

    def _read_tail(self, rest: bytes, pieces: Iterator[bytes]) -> bytes:
        """Return what follows the events."""
        if not rest:
            return b""
        tail = bytearray(rest)
        for piece in pieces:
            tail += piece
            if len(tail) > MAX_TOP_BYTES:
                raise InputError(
                    f"more than {MAX_TOP_BYTES >> 20} MiB follow its traceEvents, which no profiler"
                    " writes; take the large value out of the file"
                )
        return bytes(tail)

    def _skip_head(self, pieces: Iterator[bytes]) -> bytes:
        """Read up to the array and return what follows its opening bracket."""
        head, searched = b"", 0
        for piece in chain(pieces, [b""]):
            head += piece
            more = bool(piece) and len(head) < _KEY_BYTES
            if (end := array_start(head, searched, more=more)) is None:
                if len(head) > MAX_TOP_BYTES:
                    raise InputError(
                        f"no traceEvents in its first {MAX_TOP_BYTES >> 20} MiB; if it is a trace,"
                        " take the large value before them out of the file"
                    )
                searched = 0 if more else len(head)
                continue
            self.head = head[:end]
            return head[end:]
        if self._bytes.damaged is not None:
            raise InputError(self._bytes.damaged)
        raise InputError("it has no traceEvents array; is it a PyTorch Profiler trace?")


def _parted_at_zeros(buffer: bytes) -> tuple[bytes, bytes]:
    """Return what comes before a run of zeros, and the rest from there on."""
    first = buffer.find(b"\0")  # a hundred times as fast as to look for two
    at = buffer.find(ZEROS, first) if first >= 0 else -1
    return (buffer, b"") if at < 0 else (buffer[:at], buffer[at:])


def _gather(pieces: Iterator[bytes], least_bytes: int) -> list[bytes]:
    """Return the next pieces: `least_bytes`, or all that is left."""
    gathered: list[bytes] = []
    size = 0
    while size < least_bytes and (piece := next(pieces, b"")):
        gathered.append(piece)
        size += len(piece)
    return gathered
