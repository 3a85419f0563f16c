"""Loading an nsys export: its tables as Arrow into temporary tables, then SQL to staging."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources

import duckdb

from traceweave.sources import derive
from traceweave.sources.model import OP_IDS_PER_SOURCE, Issue, Loaded, Report, Trace
from traceweave.sources.nsys.account import count_stored, find_issues, find_issues_of_rows
from traceweave.sources.nsys.event_tables import (
    CUDA_EVENT,
    DIAGNOSTIC,
    GPU_METRICS,
    GRAPH_TRACE,
    KERNELS,
    LOADED,
    MEMCPY,
    MEMORY_USAGE,
    MEMSET,
    MPI,
    NETWORK_METRICS,
    NO_EVENTS,
    NOT_LOADED,
    NVTX,
    OS_CALLS,
    RUNTIME,
    SYNCHRONIZATION,
    TIME_COLUMNS,
    EventTable,
)
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.other_events import insert_other_events
from traceweave.sources.nsys.references import read_references
from traceweave.sources.nsys.staged_events import StagedEvents

_TRANSLATIONS: tuple[tuple[str, tuple[EventTable, ...]], ...] = (
    ("json_payloads.sql", ()),
    ("launches.sql", ()),
    ("kernels.sql", (KERNELS,)),
    ("memcpy.sql", (MEMCPY,)),
    ("memset.sql", (MEMSET,)),
    ("graph_trace.sql", (GRAPH_TRACE,)),
    ("runtime.sql", (RUNTIME,)),
    ("os_calls.sql", (OS_CALLS,)),
    ("mpi_calls.sql", MPI),
    ("mpi_collectives.sql", MPI),
    ("nvtx.sql", ()),
    ("autograd.sql", (NVTX,)),
    ("synchronization.sql", (SYNCHRONIZATION,)),
    ("cuda_event.sql", (CUDA_EVENT,)),
    ("diagnostic.sql", (DIAGNOSTIC,)),
    ("memory_usage.sql", (MEMORY_USAGE,)),
    ("gpu_metrics.sql", (GPU_METRICS,)),
    ("network_metrics.sql", NETWORK_METRICS),
)
"""Scripts in order, each run if one of its tables has rows; without tables, always."""

_DONE_AFTER: Mapping[str, tuple[EventTable, ...]] = {
    "kernels.sql": (KERNELS,),
    "runtime.sql": (RUNTIME,),
    "os_calls.sql": (OS_CALLS,),
    "nvtx.sql": (NVTX,),
}
"""The tables that may be large, and the last script to read them."""


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the base tables of `con` from an export; `report` gets bytes of the file as read.

    Raises InputError if the file is no readable SQLite at all.
    """
    derive.stage(con)
    with open_export(trace.path) as export, _temporary_tables(con):
        progress = _Progress(export, trace.size_bytes, report)
        events = StagedEvents(con, export, source_id * OP_IDS_PER_SOURCE)
        events.read(progress.read)
        damage = read_references(con, export, trace, source_id, events.filled)
        con.execute(_script("words.sql"))
        skipped = list(_skipped_tables(export))
        issues = [*skipped, *find_issues_of_rows(con, events.filled)]
        _translate(con, events)
        stored = count_stored(con, source_id)
        issues += find_issues(con, export, events.undecoded)
        _drop_temporary_tables(con)  # room for what sorts
        derive.finish(con, source_id, trace)
        progress.finish()
        damaged = [*([export.damaged] if export.damaged else []), *events.damage, *damage]
        read = events.rows + sum(issue.count for issue in skipped)
        return Loaded(read, stored, issues, "; ".join(damaged) or None)


def _translate(con: duckdb.DuckDBPyConnection, events: StagedEvents) -> None:
    """Turn the rows read into staged and stored events, all but what `derive.finish` does; drop the
    rows on the way.
    """
    for script, tables in _TRANSLATIONS:
        if not tables or not set(events.filled).isdisjoint(tables):
            con.execute(_script(script))
            events.drop(_DONE_AFTER.get(script, ()))
    for table in events.filled:
        if table.category is not None:
            insert_other_events(con, table)
    derive.link(con)
    con.execute(_script("collectives.sql"))


def _skipped_tables(export: Export) -> Iterator[Issue]:
    for table, columns in sorted(export.tables.items()):
        known = table in {t.name for t in LOADED} or table in NO_EVENTS
        if known or table.startswith(("ENUM_", "TARGET_INFO_", "META_DATA_", "sqlite_")):
            continue
        held = NOT_LOADED.get(table)
        count = export.count(table)
        if count and (held or columns.intersection(TIME_COLUMNS)):
            held = held or "events of an unknown table"
            yield Issue("skipped: " + table, count, f"not loaded: {held} ({table})")


class _Progress:
    """Turns rows read into bytes of the file, so that all reports sum to its size."""

    def __init__(self, export: Export, size_bytes: int, report: Report) -> None:
        self._rows_left = sum(export.rows_about(table.name) for table in LOADED)
        self._bytes_left = size_bytes
        self._report = report

    def read(self, rows: int) -> None:
        """Report the share of the bytes left that these rows are of the rows left."""
        if self._rows_left > 0:
            share = self._bytes_left * min(rows, self._rows_left) // self._rows_left
            self._rows_left -= rows
            self._bytes_left -= share
            self._report(share)

    def finish(self) -> None:
        """Report what is left."""
        self._report(self._bytes_left)
        self._bytes_left = 0


@contextmanager
def _temporary_tables(con: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Drop the temporary tables of this loader at the end, come what may."""
    try:
        yield
    finally:
        _drop_temporary_tables(con)


def _drop_temporary_tables(con: duckdb.DuckDBPyConnection) -> None:
    for kind, listing in (("VIEW", "duckdb_views()"), ("TABLE", "duckdb_tables()")):
        column = kind.lower() + "_name"
        rows = con.execute(
            f"SELECT {column} FROM {listing} WHERE temporary AND starts_with({column}, 'nsys_')"
        ).fetchall()
        for (name,) in rows:
            con.execute(f'DROP {kind} "{name}"')


@cache
def _script(name: str) -> str:
    return resources.files(__package__).joinpath("events", name).read_text("utf-8")
