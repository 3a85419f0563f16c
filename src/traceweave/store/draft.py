"""Writing a new database file so that no half of it is ever seen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave.errors import DatabaseError, InputError, UsageError
from traceweave.interrupts import held_back
from traceweave.outputs import beside, remove, remove_orphans
from traceweave.store.database import (
    InUseError,
    connect,
    first_line,
    hide_progress_bar,
    schema_version,
    was_interrupted,
)
from traceweave.store.empty import create_tables
from traceweave.targets import refuse_what_is_read

DRAFT_MEMORY_MIB = (576, 192)
"""DuckDB's memory while a draft is written: a base and a part per job; more goes to disk.

The process as a whole stays some 400 MiB above; what DuckDB notes about each block on disk is not
counted, so 18 GB of temporary tables make that 550.
"""


BLOCK_BYTES = 64 << 10
"""Each column of each table begins a block of its own. With a quarter of DuckDB's usual 256 KiB a
small database takes less than half, and a large one is read as fast.
"""

STORAGE_VERSION = "v1.4.0"
"""The oldest DuckDB, one with long-term support, that reads what is written. It costs nothing."""


@dataclass(frozen=True)
class Draft:
    """A database under construction, beside the file that it will replace."""

    scratch: Path
    """An empty folder on the same disk that disappears with the draft."""
    con: duckdb.DuckDBPyConnection
    """Connection to the draft, tables created and empty."""


def check_target(path: Path) -> None:
    """Raise InputError unless a new database can be written at `path`, UsageError unless it may.

    A traceweave database of any version may be replaced, any other file may not.
    """
    refuse_what_is_read(path)
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; name a file, for example {path / 'run.duckdb'}")
    if path.exists() and not _is_ours(path):
        raise UsageError(
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
    remove_orphans(target)
    file, scratch = beside(target), beside(target, ".dir.tmp")
    try:
        with explaining(target):
            scratch.mkdir()
            con = duckdb.connect()
            try:
                attach_draft(con, file, scratch, jobs)
                create_tables(con)
                yield Draft(scratch, con)
                con.execute("CHECKPOINT")
            finally:
                con.close()
            _fold_log(target)
            os.replace(file, target)
            _sync(target.parent)
    finally:
        with held_back():
            remove(file)
            remove(scratch)


@contextmanager
def explaining(target: object) -> Iterator[None]:
    """Raise InputError for what keeps a draft from being written, and Ctrl-C as what it is."""
    try:
        yield
    except (RuntimeError, OSError, duckdb.Error) as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        if not isinstance(error, OSError | duckdb.IOException | duckdb.OutOfMemoryException):
            raise
        reason = first_line(error).rpartition("Original error: ")[2]
        raise InputError(
            f"{target}: cannot be written: {reason}; make room, or name another place with -o"
        ) from error


def attach_draft(con: duckdb.DuckDBPyConnection, file: Path, scratch: Path, jobs: int) -> None:
    """Attach a database file to `con` as the one in use, and bound the memory of `con`.

    One that is there keeps the storage version that it has.
    """
    # no write-ahead log: a draft is thrown away if anything goes wrong
    options = ["RECOVERY_MODE no_wal_writes", f"BLOCK_SIZE {BLOCK_BYTES}"]
    if not file.exists():
        options.append(f"STORAGE_VERSION '{STORAGE_VERSION}'")
    con.execute(f"ATTACH ? AS draft ({', '.join(options)})", [str(file)])
    con.execute("USE draft")
    bound(con, scratch, jobs)


def draft_memory_mib(jobs: int) -> int:
    """Return how much memory DuckDB may take while `jobs` threads write."""
    base, per_job = DRAFT_MEMORY_MIB
    return base + per_job * jobs


def bound(
    con: duckdb.DuckDBPyConnection, scratch: Path, jobs: int, most_mib: int | None = None
) -> None:
    """Bound the memory of `con` for `jobs` threads that write; `scratch` takes what is more."""
    memory = min(draft_memory_mib(jobs), most_mib or draft_memory_mib(jobs))
    con.execute("SET temp_directory = ?", [str(scratch / "spill")])
    con.execute("SET memory_limit = ?", [f"{memory}MiB"])
    con.execute("SET threads = ?", [jobs])
    hide_progress_bar(con)


def _sync(folder: Path) -> None:
    """Have the names in a folder written to disk, where its file system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_ours(path: Path) -> bool:
    try:
        con = connect(path, read_only=True)
    except InUseError:
        raise
    except DatabaseError:
        return False
    try:
        return schema_version(con) is not None
    except duckdb.Error:
        return False
    finally:
        con.close()


def _fold_log(target: Path) -> None:
    """Fold a write-ahead log beside `target` into it, lest DuckDB replays it into the new file."""
    log = target.with_name(target.name + ".wal")
    if not log.exists():
        return
    with suppress(DatabaseError, duckdb.Error), connect(target, read_only=False) as con:
        con.execute("CHECKPOINT")
    if log.exists():
        raise InputError(
            f"{target}: another program has it open for writing (there is a {log.name}); close it"
            " there, then ingest again"
        )
