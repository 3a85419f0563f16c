"""The bytes of a file, unpacked if it is gzip, as far as they go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from isal import igzip_lib, isal_zlib

from traceweave.errors import InputError

BLOCK_BYTES = 4 << 20
"""Bytes read, and at most unpacked, at a time."""

GZIP_MAGIC = b"\x1f\x8b"


def is_packed(path: Path) -> bool:
    """Tell by its first bytes whether a file is gzip."""
    with path.open("rb") as file:
        return file.read(len(GZIP_MAGIC)) == GZIP_MAGIC


class ByteStream:
    """A file's bytes in pieces, unpacked if it is gzip; a damaged end is remembered, not raised.

    Attributes:
        damaged: why the file could not be unpacked to its end; None if it could.
    """

    def __init__(
        self,
        file: IO[bytes],
        report: Callable[[int], None] | None = None,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        self._file = file
        self._report = report
        self._block_bytes = block_bytes
        self.damaged: str | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield pieces of at most `block_bytes`, as far as the file can be unpacked."""
        raw = self._raw()
        first = next(raw, b"")
        if first.startswith(GZIP_MAGIC):
            yield from self._unpacked(first, raw)
        elif first:
            yield first
            yield from raw

    def _raw(self) -> Iterator[bytes]:
        while piece := self._file.read(self._block_bytes):
            if self._report is not None:
                self._report(len(piece))
            yield piece

    def _unpacked(self, packed: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
        """Unpack member after member, a bounded piece at a time, giving out all that is whole."""
        member = isal_zlib.decompressobj(wbits=31)
        while True:
            try:
                piece = member.decompress(packed, max_length=self._block_bytes)
            except igzip_lib.IsalError as error:  # type: ignore[misc]  # its stub says instance
                self.damaged = f"the gzip stream is damaged ({error})"
                return
            if piece:
                yield piece
            packed = member.unused_data if member.eof else member.unconsumed_tail
            if not packed and (member.eof or not piece):
                packed = next(raw, b"")
                if not packed:
                    self.damaged = None if member.eof else "the gzip stream ends too early"
                    return
            if member.eof:
                packed = packed.lstrip(b"\0")  # padding between or after members is legal
                member = isal_zlib.decompressobj(wbits=31)


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
