"""Loading an nsys export: its tables as Arrow into temporary tables, then SQL to staging."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

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
from traceweave.vocabulary import script

_script = partial(script, f"{__package__}.events")

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
    ("mpi_ranges.sql", (NVTX,)),
    ("autograd.sql", (NVTX,)),
    ("synchronization.sql", (SYNCHRONIZATION,)),
    ("cuda_event.sql", (CUDA_EVENT,)),
    ("diagnostic.sql", (DIAGNOSTIC,)),
    ("memory_usage.sql", (MEMORY_USAGE,)),
    ("gpu_metrics.sql", (GPU_METRICS,)),
    ("network_metrics.sql", NETWORK_METRICS),
)
"""Scripts in order, each run if one of its tables has rows; without tables, always."""

_LOADED_NAMES = frozenset(table.name for table in LOADED)

MOST_DESCRIPTIONS = 100_000
"""Rows of a table that names or explains something; larger ones hold what is not loaded."""

_DONE_AFTER: Mapping[str, tuple[EventTable, ...]] = {
    "kernels.sql": (KERNELS,),
    "runtime.sql": (RUNTIME,),
    "os_calls.sql": (OS_CALLS,),
    "nvtx.sql": (NVTX,),
}
"""The tables that may be large, and the last script to read them."""


def load_export(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report
) -> Loaded:
    """Fill the base tables of `con` from an export; `report` gets bytes of the file as read.

    Raises InputError if the file is no readable SQLite at all.
    """
    derive.stage(con)
    with open_export(trace.path) as export, _temporary_tables(con):
        progress = _Progress(export, trace.size_bytes, report)
        events = StagedEvents(con, export, source_id * OP_IDS_PER_SOURCE)
        events.read(progress.read)
        read_references(con, export, trace, source_id, events.filled)
        con.execute(_script("words.sql"))
        skipped = list(_skipped_tables(export))
        issues = [*skipped, *find_issues_of_rows(con, events.filled)]
        _translate(con, events)
        stored = count_stored(con, source_id)
        issues += find_issues(con, export, events.undecoded)
        _drop_temporary_tables(con)  # room for what sorts
        derive.finish(con, {source_id: trace})
        progress.finish()
        _check_descriptions(export)
        read = events.rows + sum(issue.count for issue in skipped)
        return Loaded(read, stored, issues, export.damage, _lacks_events(export))


def _translate(con: duckdb.DuckDBPyConnection, events: StagedEvents) -> None:
    """Turn the rows read into staged and stored events, all but what `derive.finish` does; drop the
    rows on the way.
    """
    for name, tables in _TRANSLATIONS:
        if not tables or not set(events.filled).isdisjoint(tables):
            con.execute(_script(name))
            events.drop(_DONE_AFTER.get(name, ()))
    for table in events.filled:
        if table.category is not None:
            insert_other_events(con, table)
    derive.link(con)
    con.execute(_script("nccl_ranges.sql"))
    con.execute(_script("collectives.sql"))


def _skipped_tables(export: Export) -> Iterator[Issue]:
    for table, columns in sorted(export.tables.items()):
        if table in _LOADED_NAMES or not _may_hold_events(table, columns):
            continue
        if count := export.count(table):
            held = NOT_LOADED.get(table, "events of an unknown table")
            yield Issue("skipped: " + table, count, f"not loaded: {held} ({table})")


def _may_hold_events(table: str, columns: frozenset[str]) -> bool:
    if table in NO_EVENTS or table.startswith(("ENUM_", "TARGET_INFO_", "META_DATA_", "sqlite_")):
        return False
    return table in _LOADED_NAMES or table in NOT_LOADED or not columns.isdisjoint(TIME_COLUMNS)


def _lacks_events(export: Export) -> bool:
    """Tell whether what could not be read may have held events, which nobody counted."""
    return export.damaged is not None or any(
        _may_hold_events(table, export.tables.get(table, frozenset()))
        for table in export.unreadable
    )


def _check_descriptions(export: Export) -> None:
    """Have all tables noted that cannot be read, also those of which no event needed a row."""
    read = _LOADED_NAMES | {"StringIds"}
    for table in sorted(export.tables.keys() - read - export.unreadable.keys()):
        if export.rows_about(table) <= MOST_DESCRIPTIONS:
            export.check(table)


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
