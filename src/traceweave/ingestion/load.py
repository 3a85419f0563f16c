"""Loading many files at a time, each for itself: one that fails takes no other down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import duckdb

from traceweave.errors import TraceweaveError
from traceweave.sources.discover import Source
from traceweave.sources.model import BAD_FILE, Loaded, Process, Trace
from traceweave.store.database import first_line
from traceweave.store.schema import source_tables


class Progress(Protocol):
    """What ingest tells about its progress; called from several threads."""

    def begin(self, sources: Sequence[tuple[Path, int]]) -> None:
        """All files that will be loaded, with their sizes in bytes."""

    def advance(self, path: Path, bytes_read: int) -> None:
        """`bytes_read` more bytes of a file were read."""

    def finish(self, path: Path, status: str) -> None:
        """A file is done: 'ok', 'partial' or 'failed'."""

    def stage(self, text: str) -> None:
        """What happens before and after the files are loaded."""


Numbered = Mapping[int, Source]
"""Files by their source_id."""


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


def load_all(
    con: duckdb.DuckDBPyConnection, numbered: Numbered, jobs: int, progress: Progress
) -> list[Outcome]:
    """Load the files, `jobs` at a time, the largest first; return outcomes in the order given."""
    numbers, sources = list(numbered), list(numbered.values())
    order = sorted(range(len(sources)), key=lambda i: (-sources[i].trace.size_bytes, i))
    left_over = order[len(order) - len(order) % jobs :]  # fewer than there are cores
    as_read = [
        replace(s, trace=replace(s.trace, all_threads=i in left_over))
        for i, s in enumerate(sources)
    ]
    cursors = [_cursor(con) for _ in sources]
    pool = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="ingest")
    try:
        futures = {
            i: pool.submit(_load, cursors[i], as_read[i], numbers[i], progress) for i in order
        }
        return [futures[i].result() for i in range(len(sources))]
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


def _load(
    cursor: duckdb.DuckDBPyConnection, source: Source, source_id: int, progress: Progress
) -> Outcome:
    """Load one file; nothing of it stays if that fails."""
    path = source.trace.path

    def report(bytes_read: int) -> None:
        progress.advance(path, bytes_read)

    try:
        trace = replace(source.trace, path=source.read_from)
        outcome = Outcome(source_id, source, source.format.load(cursor, trace, source_id, report))
    except (duckdb.FatalException, duckdb.InterruptException, duckdb.IOException):
        raise  # of the database that is written, no fault of the file
    except BAD_FILE as error:
        _undo(cursor, source_id)
        outcome = Outcome(source_id, source, None, _reason(error, source))
    cursor.close()  # its temporary tables would take memory until all files are loaded
    progress.finish(path, outcome.status)
    return outcome


def _undo(cursor: duckdb.DuckDBPyConnection, source_id: int) -> None:
    """Remove every row of a file, whether or not its loader ended its transaction."""
    with suppress(duckdb.TransactionException):
        cursor.rollback()
    for table in source_tables(cursor):
        cursor.execute(f"DELETE FROM {table} WHERE source_id = ?", [source_id])


def _reason(error: BaseException, source: Source) -> str:
    text = first_line(error)
    for path in (source.read_from, source.trace.path):
        text = text.removeprefix(f"{path}: ")
    known = isinstance(error, TraceweaveError | duckdb.Error | OSError)
    return text if known else f"{type(error).__name__}: {text}"
