"""The bytes of a file, unpacked if it is gzip, as far as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from isal import igzip_lib

from traceweave.errors import InputError

BLOCK_BYTES = 512 << 10
"""Bytes read, and at most unpacked, at a time. Larger blocks are given back to the system when they
are freed, and their pages made anew for the next one: 4 MiB took a sixth more CPU to read JSON."""

GZIP_MAGIC = b"\x1f\x8b"

ZEROS = b"\0\0"
"""No text has these: blocks of a file that were never written, when a machine crashed, read so."""

ZEROED = "zeros are where text was, as a machine that crashes leaves them"

BOMB_BYTES = 1 << 30
BOMB_RATIO = 200
"""Traces pack 10 to 30 times; what unpacks to more than both is taken for a gzip bomb."""

_SLICE_BYTES = 32 << 10
"""Packed bytes that are unpacked at a time, and lost where they turn out to be damaged."""

_TRAILER_BYTES = 8
"""Checksum and length at the end of a gzip stream."""


def is_packed(path: Path) -> bool:
    """Tell by its first bytes whether a file is gzip."""
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


def bomb_bytes(path: Path) -> int:
    """Return to how many bytes the file may unpack before it is taken for a gzip bomb."""
    return max(BOMB_BYTES, path.stat().st_size * BOMB_RATIO)


class ByteStream:
    """A file's bytes in pieces, unpacked if it is gzip; a damaged end is remembered, not raised.

    What unpacks to more than `most_bytes` is refused.

    Attributes:
        damaged: why the file could not be read whole; None if it could.
    """

    def __init__(
        self,
        file: IO[bytes],
        report: Callable[[int], None] | None = None,
        block_bytes: int = BLOCK_BYTES,
        most_bytes: int | None = None,
    ) -> None:
        self._file = file
        self._report = report
        self._block_bytes = block_bytes
        self._most_bytes = most_bytes
        self.damaged: str | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield pieces of at most `block_bytes`, as far as the file can be unpacked.

        Raises:
            InputError: it is gzip and unpacks to more than `most_bytes`.
        """
        raw = self._raw()
        first = next(raw, b"")
        if first.startswith(GZIP_MAGIC):
            yield from self._bounded(self._unpacked(_slices(first, raw)))
        elif first:
            yield first
            yield from raw

    def text(self) -> Iterator[bytes]:
        """Yield the pieces of what has to be text: zeros in it are damage."""
        for piece in self.pieces():
            if b"\0" in piece and ZEROS in piece:
                self.damaged = self.damaged or ZEROED
            yield piece

    def lines(self, longest: int, cut: Callable[[bytes], int] = len) -> Iterator[bytes]:
        """Yield the lines of a text without their ends. Memory stays bounded: of one that is longer
        than `longest` come pieces, each as far as `cut` says.
        """
        rest = b""
        for piece in self.text():
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            if newline:
                yield from whole.split(b"\n")
            while len(rest) > longest:
                at = cut(rest)
                yield rest[:at]
                rest = rest[at:]
        if rest:
            yield rest

    def _raw(self) -> Iterator[bytes]:
        while piece := self._file.read(self._block_bytes):
            if self._report is not None:
                self._report(len(piece))
            yield piece

    def _bounded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the pieces, no more than `most_bytes` of them."""
        total = 0
        for piece in pieces:
            total += len(piece)
            if self._most_bytes is not None and total > self._most_bytes:
                raise InputError(
                    f"unpacks to more than {BOMB_RATIO} times its size, as gzip bombs do;"
                    " if you trust it, use --trust-packed"
                )
            yield piece

    def _unpacked(self, slices: Iterator[bytes]) -> Iterator[bytes]:
        """Unpack member after member, a bounded piece at a time, giving out all that is whole."""
        member = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
        members = 0
        for packed in slices:
            while packed or not (member.needs_input or member.eof):
                if member.eof:
                    packed = packed.lstrip(b"\0")  # padding between or after members is legal
                    if not packed:
                        break
                    member = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
                    members += 1
                try:
                    piece = member.decompress(packed, max_length=self._block_bytes)
                except igzip_lib.IsalError as error:  # type: ignore[misc]  # its stub says instance
                    where = "what follows the gzip stream" if members else "the gzip stream"
                    self.damaged = f"{where} is damaged ({error})"
                    return
                packed = member.unused_data if member.eof else b""
                if piece:
                    yield piece
        if not member.eof:
            self.damaged = "the gzip stream ends too early"


def _slices(first: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield packed bytes in small slices, a trailer at the very end by itself.

    A decompressor that meets damage keeps what it unpacked in that call, so the calls are small,
    and a wrong checksum costs nothing.
    """
    held = first
    for piece in raw:
        yield from _cut(held[:-_TRAILER_BYTES])
        held = held[-_TRAILER_BYTES:] + piece
    yield from _cut(held[:-_TRAILER_BYTES])
    yield held[-_TRAILER_BYTES:]


def _cut(packed: bytes) -> Iterator[bytes]:
    for start in range(0, len(packed), _SLICE_BYTES):
        yield packed[start : start + _SLICE_BYTES]


def read_head(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file, unpacked if it is gzip.

    Raises:
        InputError: the file is gzip and damaged before any content.
    """
    head = bytearray()
    with path.open("rb") as file:
        stream = ByteStream(file, block_bytes=size)
        for piece in stream.pieces():
            head += piece
            if len(head) >= size:
                break
    if stream.damaged is not None and not head:
        raise InputError(f"{path}: {stream.damaged}")
    return bytes(head[:size])
