"""Database files: opening one safely, and writing a new one so that no half of it is ever seen."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave.errors import DatabaseError, InputError
from traceweave.store.schema import SCHEMA_VERSION, create_tables

DRAFT_MEMORY_MIB = (704, 192)
"""DuckDB's memory while a draft is written: a base and a part per job; more goes to disk.

The process as a whole stays some 400 MiB above.
"""


class _InUseError(DatabaseError):
    """Another process writes the file."""


@dataclass(frozen=True)
class Draft:
    """A database under construction, beside the file that it will replace."""

    scratch: Path
    """An empty folder on the same disk that disappears with the draft."""
    _created: Future[duckdb.DuckDBPyConnection]

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """Connection to the draft, tables created and empty; waits until they are."""
        return self._created.result()


def open_database(path: str | Path, *, read_only: bool = True) -> duckdb.DuckDBPyConnection:
    """Open a traceweave database.

    A read-only connection is also cut off from everything else: no other file, no extension, no
    change of settings. Temporary macros and tables still work. Raises DatabaseError.
    """
    path = Path(path)
    if path.is_dir():
        raise DatabaseError(
            f"{path}: is a folder; make a database of the traces in it with 'traceweave ingest"
            f" {path} -o run.duckdb', and name that"
        )
    if not path.is_file():
        raise DatabaseError(
            f"{path}: does not exist; make a database with 'traceweave ingest TRACES -o {path}'"
        )
    con = _connect(path, read_only=read_only)
    try:
        _check_version(con, path)
        if read_only:
            # a function of an extension would otherwise have DuckDB look for it in the network
            con.execute("SET autoinstall_known_extensions = false")
            con.execute("SET autoload_known_extensions = false")
            con.execute("SET enable_external_access = false")
            con.execute("SET lock_configuration = true")
    except BaseException:
        con.close()
        raise
    return con


def check_target(path: Path) -> None:
    """Raise InputError unless a new database may be written at `path`.

    A traceweave database of any version may be replaced, any other file may not.
    """
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file, for example {path / 'run.duckdb'}")
    if path.exists() and not _is_ours(path):
        raise InputError(
            f"{path}: exists and is not a traceweave database, or a damaged one; remove it, or"
            " name another file with -o"
        )


@contextmanager
def drafting(target: Path, jobs: int = 1) -> Iterator[Draft]:
    """Yield an empty database that becomes `target` when the block ends without an exception.

    It is written beside the target and renamed at the end: a kill at any moment leaves the old
    database or none. What an exception leaves is removed; what a killed process left is removed by
    the next draft for the same target. `jobs` is how many threads write at a time.
    """
    target = target.resolve()
    check_target(target)
    _remove_orphans(target)
    base, per_job = DRAFT_MEMORY_MIB
    stem = f".{target.name}.{_host()}-{os.getpid()}-{secrets.token_hex(4)}"
    file, scratch = target.with_name(f"{stem}.tmp"), target.with_name(f"{stem}.dir.tmp")
    try:
        scratch.mkdir()
        con = duckdb.connect()
        try:
            # no write-ahead log: a draft is thrown away if anything goes wrong
            con.execute("ATTACH ? AS draft (RECOVERY_MODE no_wal_writes)", [str(file)])
            con.execute("USE draft")
            con.execute("SET temp_directory = ?", [str(scratch / "spill")])
            con.execute("SET memory_limit = ?", [f"{base + per_job * jobs}MiB"])
            con.execute("SET threads = ?", [jobs])
            _hide_progress_bar(con)
            # the views and their comments take a tenth of a second, in which files can be looked at
            with ThreadPoolExecutor(1, "tables") as thread:
                draft = Draft(scratch, thread.submit(_with_tables, con))
                yield draft
            draft.con.execute("CHECKPOINT")
        finally:
            con.close()
        _fold_log(target)
        os.replace(file, target)
        _sync(target.parent)
    except (RuntimeError, OSError, duckdb.Error) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        if not isinstance(error, OSError | duckdb.IOException | duckdb.OutOfMemoryException):
            raise
        reason = first_line(error).rpartition("Original error: ")[2]
        raise InputError(
            f"{target}: cannot be written: {reason}; make room, or name another place with -o"
        ) from error
    finally:
        _remove(file)
        _remove(scratch)


def _sync(folder: Path) -> None:
    """Have the names in a folder written to disk, where its file system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _with_tables(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.begin()
    create_tables(con)
    con.commit()
    return con


def was_interrupted(error: BaseException | None) -> bool:
    """Tell whether an error is what DuckDB makes of Ctrl-C, or came while it was cleaned up after.

    Its Python package raises a RuntimeError in place of KeyboardInterrupt.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
            return True
        error = error.__context__
    return False


def _connect(path: Path, *, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        return _attach(path) if read_only else duckdb.connect(path)
    except duckdb.IOException as error:
        text = str(error)
        if "lock" in text.lower():
            raise _InUseError(
                f"{path}: another program has it open for writing; close it there first"
            ) from error
        if "not a valid DuckDB" in text or "newer version" in text or "older version" in text:
            raise DatabaseError(
                f"{path}: not a DuckDB database that DuckDB {duckdb.__version__} can read;"
                " make one with 'traceweave ingest'"
            ) from error
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}") from error
    except duckdb.CatalogException as error:  # a text file that DuckDB could query by itself
        raise DatabaseError(
            f"{path}: not a database; if it is a trace, make one with 'traceweave ingest {path}'"
        ) from error
    except duckdb.Error as error:
        raise DatabaseError(f"{path}: cannot be opened: {first_line(error)}") from error


def _attach(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a file read-only in a DuckDB instance of its own.

    `duckdb.connect(path)` would share one instance among all connections of this process to the
    path: settings locked here would be locked for the user's own connections, and after a new
    ingest the path would still lead to the old file as long as one of them is open.
    """
    con = duckdb.connect()
    try:
        _hide_progress_bar(con)
        # DuckDB compares every pair of rows where it expects few; it can be wrong by millions
        con.execute("SET asof_loop_join_threshold = 0")
        con.execute("SET temp_directory = ?", [f"{path}.tmp"])
        con.execute("ATTACH ? AS run (READ_ONLY)", [str(path)])
        con.execute("USE run")
    except BaseException:
        con.close()
        raise
    return con


def _hide_progress_bar(con: duckdb.DuckDBPyConnection) -> None:
    # in a notebook without ipywidgets it is off already, and DuckDB refuses the setting
    if con.execute("SELECT current_setting('enable_progress_bar')").fetchone() == (True,):
        con.execute("SET enable_progress_bar = false")


def _check_version(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        version = _schema_version(con)
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


def _schema_version(con: duckdb.DuckDBPyConnection) -> str | None:
    try:
        row = con.execute("SELECT value FROM meta WHERE name = 'schema_version'").fetchone()
    except (duckdb.CatalogException, duckdb.BinderException):
        return None
    return None if row is None else str(row[0])


def _is_ours(path: Path) -> bool:
    try:
        con = _connect(path, read_only=True)
    except _InUseError:
        raise
    except DatabaseError:
        return False
    try:
        return _schema_version(con) is not None
    except duckdb.Error:
        return False
    finally:
        con.close()


def _fold_log(target: Path) -> None:
    """Fold a write-ahead log beside `target` into it, lest DuckDB replays it into the new file."""
    log = target.with_name(target.name + ".wal")
    if not log.exists():
        return
    with suppress(DatabaseError, duckdb.Error), _connect(target, read_only=False) as con:
        con.execute("CHECKPOINT")
    if log.exists():
        raise InputError(
            f"{target}: another program has it open for writing (there is a {log.name}); close it"
            " there, then ingest again"
        )


def _remove_orphans(target: Path) -> None:
    """Remove the drafts for `target` of processes of this host that are gone."""
    name = re.compile(
        rf"\.{re.escape(target.name)}\.{re.escape(_host())}-(\d+)-[0-9a-f]{{8}}\.(dir\.)?tmp(\.wal)?"
    )
    for entry in target.parent.iterdir():
        match = name.fullmatch(entry.name)
        if match and not _is_alive(int(match[1])):
            _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    for name in (path.name, path.name + ".wal"):
        with suppress(OSError):
            path.with_name(name).unlink()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _host() -> str:
    # a folder on a shared disk holds drafts of other machines, whose process ids mean nothing here
    return re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())[:32]


def first_line(error: BaseException) -> str:
    """Return what `error` says, on one line and without DuckDB's 'Invalid Input Error:' prefix."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = lines[0] if lines and lines[0] else type(error).__name__
    return re.sub(r"^[A-Z][A-Za-z ]+ Error: ", "", text)
