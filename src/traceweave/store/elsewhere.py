"""DuckDB over files in object storage: it reads them through pyarrow's file systems."""

from __future__ import annotations

import atexit
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import duckdb

from traceweave.errors import InputError
from traceweave.places import Place

_SCHEME = "traceweave"
"""Not s3 or the like: for those DuckDB wants an extension, which it would have to download."""


def path_in_duckdb(place: Place) -> str:
    """Return the name by which DuckDB finds a place, if need be after `make_readable`."""
    return place.path if place.local is not None else f"{_SCHEME}://{place.path}"


def make_readable(con: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Have `con` read files of the system that a place is in. Raises InputError."""
    if con.filesystem_is_registered(_SCHEME):
        return
    try:
        con.register_filesystem(_as_fsspec(place))
    except ImportError as error:
        raise InputError(f"{place}: it needs pip install 'traceweave[cloud]'") from error
    atexit.register(_forget, con)  # DuckDB complains about file systems that outlive Python


def _as_fsspec(place: Place) -> Any:
    from fsspec.implementations.arrow import ArrowFSWrapper

    class Shards(ArrowFSWrapper):  # type: ignore[misc]  # fsspec has no types
        protocol = _SCHEME
        cachable = False

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return path.removeprefix(f"{_SCHEME}://")

        def modified(self, path: str) -> datetime:
            # files of a run are never written over
            return datetime.fromtimestamp(0, UTC)

    return Shards(place.system)


def _forget(con: duckdb.DuckDBPyConnection) -> None:
    with suppress(duckdb.Error):
        con.unregister_filesystem(_SCHEME)
    con.close()
