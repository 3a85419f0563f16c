"""Opening database files safely."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from weakref import WeakKeyDictionary, WeakSet

import duckdb

from traceweave.errors import DatabaseError, QueryError, TraceweaveError, shortened
from traceweave.interrupts import GivenUpError, given_up_when, when_heard
from traceweave.places import Place, is_duckdb, place_of
from traceweave.store.elsewhere import make_readable, path_in_duckdb
from traceweave.store.manifest import Manifest, check_sizes, is_run_folder, read_manifest
from traceweave.store.schema import SCHEMA_VERSION
from traceweave.store.shards import find_shards

SMALL_BYTES = 8 << 20
"""Up to this size of a database file one thread answers: to hand such little work to others costs
more than it saves. What a run folder has in shards is not in its file.
"""

_MOST_VERSION = 20
"""Characters of a version that are shown: it may be any text."""

_META = """
FROM system.main.duckdb_tables() SELECT 1
WHERE database_name = system.main.current_database() AND schema_name = 'main'
    AND table_name = 'meta' AND NOT internal
"""
"""Whether the version is in a table. In full: a foreign file may have macros of these names."""


MOST_SHARED_MIB = 4096


def shared_mib() -> int:
    """Return how much memory DuckDB may take for a question beside others: half of the machine's,
    within bounds. What it does not interrupt, such as one large value, is bounded by it too.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(MOST_SHARED_MIB, machine >> 21)


class InUseError(DatabaseError):
    """Another process writes the file."""


def open_database(
    path: str | Path | Place, *, read_only: bool = True, most_mib: int | None = None
) -> duckdb.DuckDBPyConnection:
    """Open a traceweave database.

    The connection is cut off from everything else before it reads anything: no other file, no
    extension, no change of settings. Temporary macros and tables still work, in `most_mib` of
    memory (None: most of the machine's). Changes through one that is not read-only are there after
    CHECKPOINT. Raises DatabaseError.
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
    con = _opened(place_of(path), read_only=read_only, most_mib=most_mib)
    try:
        _check_version(con, path)
    except BaseException:
        con.close()
        raise
    return con


def _open_folder(folder: Place, most_mib: int | None) -> duckdb.DuckDBPyConnection:
    """Open a run folder: its database, which may read the shards of the run and no other file."""
    manifest = _whole_run(folder)
    database = folder / manifest.database
    shards = [path_in_duckdb(folder / shard.path) for shard in manifest.shards]
    con = _opened(database, most_mib=most_mib, shards=shards)
    try:
        find_shards(con, folder)
        _check_version(con, database)
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


def load_nothing(con: duckdb.DuckDBPyConnection) -> None:
    """Have a connection load no extension by itself: DuckDB would look for it in the network.

    Before a file is attached that somebody else may have written.
    """
    con.execute("SET autoinstall_known_extensions = false")
    con.execute("SET autoload_known_extensions = false")


def cut_off(
    con: duckdb.DuckDBPyConnection, *, files: Sequence[str] = (), folders: Sequence[str] = ()
) -> None:
    """Cut a connection off, for good, from all files but those that it has attached and these.

    Before anything is asked of what it has attached: a view there may be one over any file, and
    a macro may have the name of any function of DuckDB's.
    """
    con.execute("SET allowed_paths = ?", [list(files)])
    con.execute("SET allowed_directories = ?", [list(folders)])
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")


_open: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


def _interrupt_all() -> None:
    """Interrupt all connections: while rows are read, DuckDB looks for no signal."""
    with _cursors_lock:
        opened = list(_open)
    for con in opened:
        interrupt(con)


when_heard(_interrupt_all)


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
    return number, read_only or con in _unchanging


_unchanging: WeakSet[duckdb.DuckDBPyConnection] = WeakSet()


@contextmanager
def unchanging(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Say that the database behind a connection does not change meanwhile, though it could."""
    _unchanging.add(con)
    try:
        yield
    finally:
        _unchanging.discard(con)


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


AGAIN_S = 0.05
"""An interrupt is lost on a statement that has not begun yet, so it is repeated."""


def interrupt_until(con: duckdb.DuckDBPyConnection, ended: Event) -> None:
    """Interrupt what a connection does again and again, until that has ended."""
    while not ended.is_set():
        interrupt(con)
        ended.wait(AGAIN_S)


@contextmanager
def time_limit(con: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """End what this thread does with a connection when the time is over: its statements, and what
    Python does between them. Raises QueryError then.
    """
    over, ended = Event(), Event()

    def watch() -> None:
        if not ended.wait(seconds):
            over.set()
            interrupt_until(con, ended)

    watcher = Thread(target=watch, name="time limit", daemon=True)
    watcher.start()
    try:
        with given_up_when(over):
            yield
    except (TraceweaveError, duckdb.Error, GivenUpError) as error:
        if not over.is_set():
            raise
        raise QueryError(f"given up after {seconds:g} s; ask for less at a time") from error
    finally:
        ended.set()


def connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    """Open any DuckDB file, cut off from all others.

    Raises InUseError or another DatabaseError with what to do.
    """
    return _opened(place_of(path), read_only=read_only)


def _opened(
    path: Place,
    *,
    read_only: bool = True,
    most_mib: int | None = None,
    shards: Sequence[str] = (),
) -> duckdb.DuckDBPyConnection:
    try:
        if path.local is not None and path.local.exists() and not is_duckdb(path.local):
            raise DatabaseError(
                f"{path}: not a database; if it is a trace, make one with 'traceweave ingest"
                f" {path}'"
            )
        return _attach(path, read_only, most_mib, shards)
    except duckdb.Error as error:
        text = str(error)
        if "Could not set lock" in text:
            raise InUseError(
                f"{path}: another program has it open for writing; close it there first"
            ) from error
        if "Unique file handle conflict" in text:
            raise InUseError(
                f"{path}: this program has it open already; close it there first"
            ) from error
        if "not a valid DuckDB" in text or "newer version" in text or "older version" in text:
            raise DatabaseError(
                f"{path}: not a DuckDB database that DuckDB {duckdb.__version__} can read;"
                " make one with 'traceweave ingest'"
            ) from error
        way_out = "; it is not whole: ingest the traces again" * ("Could not read" in text)
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}{way_out}") from error
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise DatabaseError(f"{path}: cannot be opened: {reason}") from error


def _attach(
    file: Place, read_only: bool, most_mib: int | None, shards: Sequence[str]
) -> duckdb.DuckDBPyConnection:
    """Open a file, which anybody may have written, in a DuckDB instance of its own.

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
            beside = path_in_duckdb(file)
        con.execute("SET temp_directory = ?", [f"{beside}.tmp"])
        if most_mib is not None:
            con.execute(f"SET memory_limit = '{most_mib}MiB'")
        if shards:
            con.execute("SET parquet_metadata_cache = true")
        elif read_only and (file.size() or 0) <= SMALL_BYTES:
            con.execute("SET threads = 1")
        load_nothing(con)
        # TYPE: what is no database of DuckDB is none, and not one of an extension to be downloaded
        # no log beside the file: a change is there when it is checkpointed, in one stroke
        mode = "READ_ONLY" if read_only else "RECOVERY_MODE no_wal_writes"
        con.execute(f"ATTACH ? AS run ({mode}, TYPE duckdb)", [path_in_duckdb(file)])
        cut_off(con, files=shards)
        con.execute("USE run")
    except BaseException:
        con.close()
        raise
    with _cursors_lock:
        _open.add(con)
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
        version = shortened(version, _MOST_VERSION)
        newer = version.isdecimal() and int(version) > SCHEMA_VERSION
        raise DatabaseError(
            f"{path}: written by {'a newer' if newer else 'another'} traceweave (schema version"
            f" {version}, this one reads {SCHEMA_VERSION}); ingest the traces again"
            + (", or upgrade traceweave" if newer else "")
        )


def schema_version(con: duckdb.DuckDBPyConnection) -> str | None:
    """Return the version of the tables; None if the database is not one of traceweave.

    Only a table is read: of a foreign file, a view might be anything.
    """
    if not con.execute(_META).fetchall():
        return None
    try:
        rows = con.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchall()
    except (duckdb.CatalogException, duckdb.BinderException):
        return None
    return str(rows[0][0]) if rows else None


def first_line(error: BaseException) -> str:
    """Return what `error` says, on one line and without DuckDB's 'Invalid Input Error:' prefix.

    It may quote a value, of any length.
    """
    lines = [line.strip() for line in str(error).splitlines()]
    text = lines[0] if lines and lines[0] else type(error).__name__
    return shortened(re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", text))
