"""DuckDB over files in object storage: it reads them through pyarrow's file systems."""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from traceweave.errors import InputError
from traceweave.places import Place

if TYPE_CHECKING:
    from pyarrow import NativeFile

_SCHEME = "traceweave"
"""Not s3 or the like: for those DuckDB wants an extension, which it would have to download."""


def path_in_duckdb(place: Place) -> str:
    """Return the name by which DuckDB finds a place, if need be after `make_readable`."""
    return in_utf8(place.path) if place.local is not None else f"{_SCHEME}://{place.path}"


def in_utf8(path: str | Path) -> str:
    """Return the name of a file of this machine as DuckDB takes it: in UTF-8, whatever locale
    Python read it in.
    """
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def make_readable(con: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Have `con` read files of the system that a place is in. Raises InputError."""
    if con.filesystem_is_registered(_SCHEME):
        return
    try:
        con.register_filesystem(_as_fsspec(place))
    except ImportError as error:
        raise InputError(f"{place}: it needs pip install 'traceweave-ranks[cloud]'") from error
    atexit.register(_forget, con)  # DuckDB complains about file systems that outlive Python


def _as_fsspec(place: Place) -> Any:
    from fsspec.implementations.arrow import ArrowFSWrapper

    class Shards(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
        protocol = _SCHEME
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path.removeprefix(f"{_SCHEME}://")

        def _open(self, path: str, mode: str = "rb", **_: Any) -> _Positioned:
            return _Positioned(self.fs.open_input_file(path))

        def modified(self, path: str) -> datetime:
            # files of a run are never written over
            return datetime.fromtimestamp(0, UTC)

    return Shards(place.system)


class _Positioned:
    """A file in which every thread has a position of its own.

    DuckDB reads one file in several threads, and seeks and reads in two calls.
    """

    def __init__(self, file: NativeFile) -> None:
        self._file = file
        self._at = threading.local()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._file.size()}
        self._at.position = origin[whence] + offset
        return self.tell()

    def tell(self) -> int:
        return getattr(self._at, "position", 0)

    def read(self, size: int = -1) -> bytes:
        wanted = self._file.size() - self.tell() if size < 0 else size
        data: bytes = self._file.read_at(wanted, self.tell())
        self._at.position = self.tell() + len(data)
        return data

    def close(self) -> None:
        self._file.close()


def _forget(con: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.Error):
        con.unregister_filesystem(_SCHEME)
    con.close()
