"""Writing a new database file so that no half of it is ever seen."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb

from traceweave import words
from traceweave.errors import DatabaseError, InputError, ResourceError, UsageError
from traceweave.interrupts import held_back, was_interrupted
from traceweave.outputs import beside, remove, remove_orphans
from traceweave.resources import what_ran_out
from traceweave.store.database import (
    InUseError,
    connect,
    first_line,
    hide_progress_bar,
    load_nothing,
    open_database,
    schema_version,
)
from traceweave.store.elsewhere import in_utf8
from traceweave.store.empty import create_tables
from traceweave.targets import refuse_what_is_read

DRAFT_MEMORY_MIB = (576, 192)
"""DuckDB's memory while a draft is written: a base and a part per job; more goes to disk.

The process as a whole stays PROCESS_MIB above; what DuckDB notes about each block on disk is not
counted, so 18 GB of temporary tables make that 550.
"""

PROCESS_MIB = 400
"""Memory of an ingest beside DuckDB's, about."""

BLOCK_BYTES = 64 << 10
"""Each column of each table begins a block of its own. With a quarter of DuckDB's usual 256 KiB a
small database takes less than half, and a large one is read as fast.
"""

CHECKPOINT_SIZE = "128MiB"
"""DuckDB writes the file anew after a statement that adds so much. After each 16 MiB, as it does by
itself, it compresses the last rows of every table again with each trace: of 32 traces of 44 MB that
took a tenth of the CPU time, and left a quarter of the file free; of larger ones little.
"""

STORAGE_VERSION = "v1.4.0"
"""The oldest DuckDB, one with long-term support, that reads what is written. It costs nothing."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What room helps against."""


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
    with explaining(target, jobs):
        check_target(target)
    remove_orphans(target)
    file, scratch = beside(target), beside(target, ".dir.tmp")
    try:
        with explaining(target, jobs):
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
def changing(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a database that is changed in place when the block ends without an exception.

    A kill at any moment leaves it as it was, or changed. Raises DatabaseError, InputError if it
    cannot be written.
    """
    log = _log_of(path)
    there = log.exists()  # another program's, with changes of its own
    whole = False
    with explaining(path, can_move=False):
        con = open_database(path, read_only=False)
        try:
            yield con
            con.execute("CHECKPOINT")
            whole = True
        finally:
            with held_back():
                con.close()
                if not (whole or there):
                    log.unlink(missing_ok=True)


@contextmanager
def explaining(target: object, jobs: int = 1, can_move: bool = True) -> Iterator[None]:
    """Raise InputError for what keeps a file from being written, ResourceError where that is
    memory or threads, and Ctrl-C as what it is.
    """
    try:
        yield
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        if (ran_out := what_ran_out(error)) is not None:
            fewer = f"lower -j, which was {jobs}, or " if jobs > 1 else ""
            need = words.size((draft_memory_mib(jobs) + PROCESS_MIB) << 20)
            raise ResourceError(
                f"{target}: not written, what was there stays: {ran_out}; {fewer}give it more"
                f" memory: -j {jobs} takes up to {need}"
            ) from error
        if not isinstance(error, OSError | duckdb.IOException):
            raise
        reason = first_line(error).rpartition("Original error: ")[2]
        ways = ["make room", "name another place with -o"][: 1 + can_move]
        if isinstance(error, OSError):
            reason = error.strerror or reason
            ways = ways[error.errno not in _FULL :]
        way_out = f"; {', or '.join(ways)}" if ways else ""
        raise InputError(f"{target}: cannot be written: {reason}{way_out}") from error


def attach_draft(con: duckdb.DuckDBPyConnection, file: Path, scratch: Path, jobs: int) -> None:
    """Attach a database file to `con` as the one in use, and bound the memory of `con`.

    One that is there keeps the storage version that it has; before it is asked anything `con` has
    to be cut off, since somebody else may have written it.
    """
    bound(con, scratch, jobs)
    load_nothing(con)
    # no write-ahead log: a draft is thrown away if anything goes wrong
    options = ["RECOVERY_MODE no_wal_writes", f"BLOCK_SIZE {BLOCK_BYTES}"]
    if not file.exists():
        options.append(f"STORAGE_VERSION '{STORAGE_VERSION}'")
    con.execute(f"ATTACH ? AS draft ({', '.join(options)})", [in_utf8(file)])
    con.execute("USE draft")


def draft_memory_mib(jobs: int) -> int:
    """Return how much memory DuckDB may take while `jobs` threads write."""
    base, per_job = DRAFT_MEMORY_MIB
    return base + per_job * jobs


def bound(
    con: duckdb.DuckDBPyConnection, scratch: Path, jobs: int, most_mib: int | None = None
) -> None:
    """Bound the memory of `con` for `jobs` threads that write; `scratch` takes what is more."""
    memory = min(draft_memory_mib(jobs), most_mib or draft_memory_mib(jobs))
    con.execute("SET temp_directory = ?", [in_utf8(scratch / "spill")])
    con.execute("SET memory_limit = ?", [f"{memory}MiB"])
    con.execute("SET threads = ?", [jobs])
    con.execute("SET checkpoint_threshold = ?", [CHECKPOINT_SIZE])
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
    except DatabaseError as error:
        if what_ran_out(error) is not None:
            raise
        return False
    try:
        return schema_version(con) is not None
    except duckdb.Error:
        return False
    finally:
        con.close()


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + ".wal")


def _fold_log(target: Path) -> None:
    """Fold a write-ahead log beside `target` into it, lest DuckDB replays it into the new file."""
    log = _log_of(target)
    if not log.exists():
        return
    with suppress(DatabaseError, duckdb.Error), connect(target, read_only=False) as con:
        con.execute("CHECKPOINT")
    if log.exists():
        raise InputError(
            f"{target}: another program has it open for writing (there is a {log.name}); close it"
            " there, then ingest again"
        )
