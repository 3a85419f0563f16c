"""SQLite files in object storage, read page by page: no file is fetched whole.

Python's own `sqlite3` opens files of this machine only. APSW is SQLite with file systems (VFS)
written in Python.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from typing import Any

import apsw
from pyarrow import NativeFile

from traceweave.locations import without_secrets
from traceweave.places import BUFFER_BYTES, Place

MOST_BLOCKS = 8
"""Blocks kept. SQLite asks for pages of 4 KiB, mostly one after another, and again and again for
those that say where the next ones are.
"""

_ACCESS = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


class Rows:
    """What `sqlite3.Connection` offers of which readers of exports make use."""

    def __init__(self, con: apsw.Connection) -> None:
        self._con = con

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> _Cursor:
        """Return the rows of a query. Raises sqlite3.DatabaseError, as do they."""
        with _as_of_sqlite3():
            return _Cursor(self._con.execute(sql, tuple(parameters)))


class _Cursor:
    def __init__(self, rows: apsw.Cursor) -> None:
        self._rows = rows

    def __iter__(self) -> _Cursor:
        return self

    def __next__(self) -> tuple[Any, ...]:
        with _as_of_sqlite3():
            return tuple(next(self._rows))

    def fetchone(self) -> tuple[Any, ...] | None:
        return next(self, None)

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self)


@contextmanager
def connected(place: Place) -> Iterator[Rows]:
    """Open a database for reading. Raises OSError."""
    with place.opened() as source:
        file = _File(source)
        name = f"traceweave-{id(file)}"
        files = _Files(name, file)
        try:
            with closing(apsw.Connection("file:/export?immutable=1", _ACCESS, name)) as con:
                yield Rows(con)
        finally:
            files.unregister()


@contextmanager
def _as_of_sqlite3() -> Iterator[None]:
    try:
        yield
    except (apsw.Error, OSError, UnicodeDecodeError) as error:
        raise sqlite3.DatabaseError(without_secrets(str(error))) from None


class _Files(apsw.VFS):
    """A file system of one file that never changes; what SQLite sorts on disk is here as ever."""

    def __init__(self, name: str, file: _File) -> None:
        super().__init__(name, base="")
        self._file = file

    def xFullPathname(self, name: str) -> str:
        return name

    def xAccess(self, pathname: str, flags: int) -> bool:
        return False

    # APSW takes any object with these methods for a file
    def xOpen(  # type: ignore[override]
        self, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> _File | apsw.VFSFile:
        return self._file if flags[0] & apsw.SQLITE_OPEN_MAIN_DB else super().xOpen(name, flags)


class _File:
    """The export, in blocks of which some are kept."""

    def __init__(self, source: NativeFile) -> None:
        self._source = source
        self._size: int = source.size()
        self.block = lru_cache(MOST_BLOCKS)(self._fetch)

    def _fetch(self, at: int) -> bytes:
        first = at * BUFFER_BYTES
        data: bytes = self._source.read_at(min(BUFFER_BYTES, self._size - first), first)
        return data

    def xRead(self, amount: int, offset: int) -> bytes:
        found = b""
        while amount > len(found) and offset + len(found) < self._size:
            at, within = divmod(offset + len(found), BUFFER_BYTES)
            found += self.block(at)[within : within + amount - len(found)]
        return found

    def xFileSize(self) -> int:
        return self._size

    def xFileControl(self, op: int, ptr: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return 4096

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_IMMUTABLE

    def xLock(self, level: int) -> None: ...
    def xUnlock(self, level: int) -> None: ...
    def xCheckReservedLock(self) -> bool:
        return False

    def xClose(self) -> None: ...
