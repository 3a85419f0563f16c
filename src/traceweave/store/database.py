"""Opening database files safely."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Timer
from weakref import WeakKeyDictionary, WeakSet

import duckdb

from traceweave.errors import DatabaseError, QueryError, TraceweaveError
from traceweave.places import Place, is_duckdb, place_of
from traceweave.store.elsewhere import make_readable, path_in_duckdb
from traceweave.store.manifest import Manifest, check_sizes, is_run_folder, read_manifest
from traceweave.store.schema import SCHEMA_VERSION
from traceweave.store.shards import find_shards

SMALL_BYTES = 8 << 20
"""Up to this size of a database file one thread answers: to hand such little work to others costs
more than it saves. What a run folder has in shards is not in its file.
"""


class InUseError(DatabaseError):
    """Another process writes the file."""


def open_database(
    path: str | Path | Place, *, read_only: bool = True, most_mib: int | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a traceweave database.

    A read-only connection is also cut off from everything else: no other file, no extension, no
    change of settings. Temporary macros and tables still work, in `most_mib` of memory (None: most
    of the machine's). Raises DatabaseError.
    """
    place = place_of(path)
    if is_run_folder(place):
        if not read_only:
            raise DatabaseError(f"{path}: a run folder is not changed in place")
        return _open_folder(place, most_mib)
    if place.local is None:
        return _open_folder(place, most_mib)  # which says that there is none
    path = place.local if isinstance(path, Place) else Path(path)
    if path.is_dir():
        raise DatabaseError(
            f"{path}: is a folder; make a database of the traces in it with 'traceweave ingest"
            f" {path} -o run.duckdb', and name that"
        )
    if not path.is_file():
        raise DatabaseError(
            f"{path}: does not exist; make a database with 'traceweave ingest TRACES -o {path}'"
        )
    con = connect(path, read_only=read_only)
    try:
        _check_version(con, path)
        if read_only:
            if path.stat().st_size <= SMALL_BYTES:
                con.execute("SET threads = 1")
            _lock(con, most_mib)
    except BaseException:
        con.close()
        raise
    return con


def _open_folder(folder: Place, most_mib: int | None) -> duckdb.DuckDBPyConnection:
    """Open a run folder: its database, which may read the shards of the run and no other file."""
    manifest = _whole_run(folder)
    con = _opened(folder / manifest.database)
    try:
        _check_version(con, folder / manifest.database)
        con.execute("SET parquet_metadata_cache = true")
        find_shards(con, folder)
        paths = [path_in_duckdb(folder / shard.path) for shard in manifest.shards]
        con.execute("SET allowed_paths = ?", [paths])
        _lock(con, most_mib)
    except BaseException:
        con.close()
        raise
    return con


def _whole_run(folder: Place) -> Manifest:
    """Return the manifest of a run that is there whole; one that was replaced meanwhile is read."""
    manifest = read_manifest(folder)
    while True:
        try:
            check_sizes(folder, manifest.parts)
            return manifest
        except DatabaseError:
            before, manifest = manifest, read_manifest(folder)
            if manifest == before:
                raise


def _lock(con: duckdb.DuckDBPyConnection, most_mib: int | None) -> None:
    """Bound a connection, cut it off from all files but those that it reads, for good."""
    if most_mib is not None:
        con.execute(f"SET memory_limit = '{most_mib}MiB'")
    # a function of an extension would otherwise have DuckDB look for it in the network
    con.execute("SET autoinstall_known_extensions = false")
    con.execute("SET autoload_known_extensions = false")
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")


def is_read_only(con: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether a connection's database cannot change while it is open."""
    return asked_of(con)[1]


def asked_of(con: duckdb.DuckDBPyConnection) -> tuple[int, bool]:
    """Return the number that DuckDB has for a connection's database, and whether it is read-only.

    The number is another one after `USE` of another database, or if it is attached again.
    """
    ((number, read_only),) = con.execute(
        "SELECT database_oid, readonly FROM duckdb_databases()"
        " WHERE database_name = current_database()"
    ).fetchall()
    return number, read_only


# an alias of these types would keep them alive at exit, of which DuckDB complains
_cursors: WeakKeyDictionary[duckdb.DuckDBPyConnection, WeakSet[duckdb.DuckDBPyConnection]] = (
    WeakKeyDictionary()
)
_cursors_lock = Lock()


@contextmanager
def cursor_of(con: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection beside another for a part of what that does: `interrupt` reaches it."""
    with con.cursor() as cursor:
        with _cursors_lock:
            _cursors.setdefault(con, WeakSet()).add(cursor)
        yield cursor


def interrupt(con: duckdb.DuckDBPyConnection) -> None:
    """Interrupt what a connection does, and the cursors that do a part of it.

    What has not begun yet is not interrupted.
    """
    with suppress(duckdb.ConnectionException):  # it is closed
        con.interrupt()
    with _cursors_lock:
        cursors = list(_cursors.get(con, ()))
    for cursor in cursors:
        interrupt(cursor)


@contextmanager
def time_limit(con: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt what a connection does when the time is over. Raises QueryError then."""
    over = Event()

    def give_up() -> None:
        over.set()
        interrupt(con)

    timer = Timer(seconds, give_up)
    timer.start()
    try:
        yield
    except (TraceweaveError, duckdb.Error) as error:
        if not over.is_set():
            raise
        raise QueryError(f"given up after {seconds:g} s; ask for less at a time") from error
    finally:
        timer.cancel()


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error is what DuckDB makes of Ctrl-C, or came while it was cleaned up after.

    Its Python package raises a RuntimeError in place of KeyboardInterrupt; where that came while it
    asked a Python object for rows, an error of its own, whose text ends with it.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
            return True
        if str(error).rstrip(": \n").endswith("KeyboardInterrupt"):
            return True
        error = error.__context__
    return False


def connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open any DuckDB file. Raises InUseError or another DatabaseError with what to do."""
    return _opened(place_of(path), read_only=read_only)


def _opened(path: Place, *, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    try:
        if path.local is not None and path.local.exists() and not is_duckdb(path.local):
            raise DatabaseError(
                f"{path}: not a database; if it is a trace, make one with 'traceweave ingest"
                f" {path}'"
            )
        return _attach(path) if read_only else duckdb.connect(path.path)
    except duckdb.IOException as error:
        text = str(error)
        if "lock" in text.lower():
            raise InUseError(
                f"{path}: another program has it open for writing; close it there first"
            ) from error
        if "not a valid DuckDB" in text or "newer version" in text or "older version" in text:
            raise DatabaseError(
                f"{path}: not a DuckDB database that DuckDB {duckdb.__version__} can read;"
                " make one with 'traceweave ingest'"
            ) from error
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}") from error
    except (OSError, duckdb.Error) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise DatabaseError(f"{path}: cannot be opened: {reason}") from error


def _attach(file: Place) -> duckdb.DuckDBPyConnection:
    """Open a file read-only in a DuckDB instance of its own.

    `duckdb.connect(path)` would share one instance among all connections of this process to the
    path: settings locked here would be locked for the user's own connections, and after a new
    ingest the path would still lead to the old file as long as one of them is open.
    """
    con = duckdb.connect()
    try:
        hide_progress_bar(con)
        # DuckDB compares every pair of rows where it expects few; it can be wrong by millions
        # (GLOBAL: for cursors of this connection too)
        con.execute("SET GLOBAL asof_loop_join_threshold = 0")
        if file.local is None:
            make_readable(con, file)
            beside = f"{tempfile.gettempdir()}/traceweave-{os.getpid()}"
        else:
            beside = file.path
        con.execute("SET temp_directory = ?", [f"{beside}.tmp"])
        # TYPE: what is no database of DuckDB is none, and not one of an extension to be downloaded
        con.execute("ATTACH ? AS run (READ_ONLY, TYPE duckdb)", [path_in_duckdb(file)])
        con.execute("USE run")
    except BaseException:
        con.close()
        raise
    return con


def hide_progress_bar(con: duckdb.DuckDBPyConnection) -> None:
    """Switch DuckDB's own progress bar off."""
    # in a notebook without ipywidgets it is off already, and DuckDB refuses the setting
    if con.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (True,):
        con.execute("SET enable_progress_bar = false")


def _check_version(con: duckdb.DuckDBPyConnection, path: Path | Place) -> None:
    try:
        version = schema_version(con)
    except duckdb.Error as error:
        raise DatabaseError(
            f"{path}: is damaged ({first_line(error)}); ingest the traces again"
        ) from error
    if version is None:
        raise DatabaseError(
            f"{path}: a DuckDB database, but not one of traceweave; make one with"
            " 'traceweave ingest'"
        )
    if version != str(SCHEMA_VERSION):
        newer = version.isdecimal() and int(version) > SCHEMA_VERSION
        raise DatabaseError(
            f"{path}: written by {'a newer' if newer else 'another'} traceweave (schema version"
            f" {version}, this one reads {SCHEMA_VERSION}); ingest the traces again"
            + (", or upgrade traceweave" if newer else "")
        )


def schema_version(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return the version of the tables; None if the database is not one of traceweave."""
    try:
        row = con.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    except (duckdb.CatalogException, duckdb.BinderException):
        return None
    return None if row is None else str(row[0])


def first_line(error: BaseException) -> str:
    """Return what `error` says, on one line and without DuckDB's 'Invalid Input Error:' prefix."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = lines[0] if lines and lines[0] else type(error).__name__
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", text)
