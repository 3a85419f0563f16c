"""Loading many files at a time, each for itself: one that fails takes no other down."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import duckdb

from traceweave.ingestion.packs import Numbered, bytes_of, is_small, pack
from traceweave.sources.discover import Source
from traceweave.sources.faults import BadFileError, fails_alone
from traceweave.sources.formats import TakesSeveral
from traceweave.sources.model import File, Loaded, Process, Trace
from traceweave.store.schema import source_tables


class Progress(Protocol):
    """What ingest tells about its progress; called from several threads."""

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        """All files that will be loaded, with their sizes in bytes."""
        return

    def advance(self, path: Path, bytes_read: int) -> None:
        """`bytes_read` more bytes of a file were read."""
        return

    def finish(self, path: Path, status: str) -> None:
        """A file is done: 'ok', 'partial' or 'failed'."""
        return

    def stage(self, text: str) -> None:
        """What happens before and after the files are loaded."""
        return


class Silent(Progress):
    """Progress that nobody watches."""


@dataclass(frozen=True)
class Outcome:
    """What became of one file: `loaded`, or `error` if nothing of it could be read."""

    source_id: int
    source: Source
    loaded: Loaded | None
    error: str | None = None

    @property
    def status(self) -> str:
        """'ok', 'partial' (damaged somewhere) or 'failed'."""
        if self.loaded is None:
            return "failed"
        return "partial" if self.loaded.damaged else "ok"


LITTLE_BYTES = 128 << 20
"""Of so much JSON, one thread of DuckDB also weaves and writes what was loaded: to hand such work
to others costs a tenth more CPU, and it is done no sooner.
"""


def load_all(
    con: duckdb.DuckDBPyConnection, numbered: Numbered, jobs: int, progress: Progress
) -> list[Outcome]:
    """Load the files, `jobs` at a time, the largest first; return outcomes in the order given."""
    packs = pack(numbered, jobs)
    for files in packs[len(packs) - len(packs) % jobs :]:  # fewer than there are cores
        for number, source in files.items():
            files[number] = replace(source, trace=replace(source.trace, all_threads=True))
    cursors = [_cursor(con) for _ in packs]
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="ingest")
    if all(is_small(source) for source in numbered.values()):
        con.execute("SET threads = 1")  # beside those of the pool
    try:
        futures = [
            pool.submit(_load, cursor, files, progress)
            for cursor, files in zip(cursors, packs, strict=True)
        ]
        wait(futures, return_when=FIRST_EXCEPTION)
        outcomes = {o.source_id: o for future in futures for o in future.result()}
        return [outcomes[number] for number in numbered]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for cursor in cursors:
            with suppress(duckdb.ConnectionException):  # its file is done
                cursor.interrupt()
        raise
    finally:
        pool.shutdown(wait=True)
        for cursor in cursors:
            cursor.close()
        if bytes_of(numbered) > LITTLE_BYTES:
            con.execute("SET threads = ?", [jobs])


def as_measured(con: duckdb.DuckDBPyConnection, outcomes: Sequence[Outcome]) -> list[Trace]:
    """Return the traces that were loaded, now and before, with the times of their events."""
    traces = {outcome.source_id: outcome.source.trace for outcome in outcomes}
    rows = con.execute(
        "SELECT source_id, path, any_value(r.format), size_bytes,"
        " min(first_local_ns), max(last_local_ns),"
        " list({rank: rank, world_size: world_size, host: host, pid: pid, gpu_name: gpu_name,"
        " nccl_version: nccl_version} ORDER BY rank)"
        " FROM base.rank_sources AS r LEFT JOIN sources USING (source_id) GROUP BY ALL"
    ).fetchall()
    found = []
    for source_id, path, format_, size, first_ns, last_ns, of in rows:
        processes = tuple(Process(key=i, **process) for i, process in enumerate(of))
        trace = traces.get(source_id) or Trace(Path(path), format_, size, processes)
        found.append(replace(trace, first_ns=first_ns, last_ns=last_ns))
    return found


def _cursor(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Return another connection that sees the same database first."""
    row = con.execute("SELECT current_database()").fetchone()
    assert row is not None
    cursor = con.cursor()
    cursor.execute(f'USE "{row[0]}"')
    return cursor


def _load(cursor: duckdb.DuckDBPyConnection, files: Numbered, progress: Progress) -> list[Outcome]:
    """Load what pack() put together; if that fails, each file for itself."""
    outcomes = _load_together(cursor, files, progress) if len(files) > 1 else None
    if outcomes is None:
        outcomes = [_load_one(cursor, number, files[number], progress) for number in files]
    cursor.close()  # its temporary tables would take memory until all files are loaded
    for outcome in outcomes:
        progress.finish(outcome.source.trace.path, outcome.status)
    return outcomes


def _load_together(
    cursor: duckdb.DuckDBPyConnection, files: Numbered, progress: Progress
) -> list[Outcome] | None:
    """Load small files of one format in one go; None, and nothing stays, if one of them fails."""
    format_ = next(iter(files.values())).format
    assert isinstance(format_, TakesSeveral)
    # what fails is read again, which nobody need see
    silent = [File(source.as_read, number, lambda _: None) for number, source in files.items()]
    try:
        with fails_alone(*(source.trace.path for source in files.values())):
            loaded = format_.load_together(cursor, silent)
    except BadFileError:
        for number in files:
            _undo(cursor, number)
        return None
    for source in files.values():
        progress.advance(source.trace.path, source.trace.size_bytes)
    return [
        Outcome(number, source, of)
        for (number, source), of in zip(files.items(), loaded, strict=True)
    ]


def _load_one(
    cursor: duckdb.DuckDBPyConnection, source_id: int, source: Source, progress: Progress
) -> Outcome:
    """Load one file; nothing of it stays if that fails."""
    path = source.trace.path

    def report(bytes_read: int) -> None:
        progress.advance(path, bytes_read)

    try:
        with fails_alone(source.read_from, path):
            loaded = source.format.load(cursor, source.as_read, source_id, report)
    except BadFileError as error:
        _undo(cursor, source_id)
        return Outcome(source_id, source, None, error.message)
    return Outcome(source_id, source, loaded)


def _undo(cursor: duckdb.DuckDBPyConnection, source_id: int) -> None:
    """Remove every row of a file, whether or not its loader ended its transaction."""
    with suppress(duckdb.TransactionException):
        cursor.rollback()
    for table in source_tables(cursor):
        cursor.execute(f"DELETE FROM {table} WHERE source_id = ?", [source_id])
