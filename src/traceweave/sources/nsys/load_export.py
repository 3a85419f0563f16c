"""Loading an nsys export: its tables as Arrow into temporary tables, then SQL to staging."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial

import duckdb

from traceweave.sources import derive
from traceweave.sources.model import OP_IDS_PER_SOURCE, Issue, Loaded, Report, Trace
from traceweave.sources.nsys.account import count_stored, find_issues, find_issues_of_rows
from traceweave.sources.nsys.clock import read_clock
from traceweave.sources.nsys.event_tables import (
    KERNELS,
    NOT_LOADED,
    NVTX,
    OS_CALLS,
    RUNTIME,
    TABLES,
    EventTable,
    may_hold_events,
)
from traceweave.sources.nsys.export import Export
from traceweave.sources.nsys.open_export import open_export
from traceweave.sources.nsys.references import read_references
from traceweave.sources.nsys.staged_events import StagedEvents
from traceweave.vocabulary import script

_script = partial(script, f"{__package__}.events")

_SCRIPTS: Mapping[str, str] = {
    "json_payloads.sql": "",
    "launches.sql": "",
    "kernels.sql": "CUPTI_ACTIVITY_KIND_KERNEL",
    "memory.sql": "CUPTI_ACTIVITY_KIND_MEM|CUDA_GPU_MEMORY_USAGE_EVENTS",
    "graph_trace.sql": "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "runtime.sql": "CUPTI_ACTIVITY_KIND_RUNTIME",
    "os_calls.sql": "OSRT_API",
    "mpi.sql": "MPI_",
    "nvtx.sql": "",
    "nvtx_links.sql": "NVTX_EVENTS",
    "waits.sql": "CUPTI_ACTIVITY_KIND_(SYNCHRONIZATION|CUDA_EVENT)",
    "diagnostic.sql": "DIAGNOSTIC_EVENT",
    "metrics.sql": "GPU_METRICS|NET_",
}
"""Scripts in order, each run if a table whose name begins so has rows; without a name, always."""

MOST_DESCRIPTIONS = 100_000
"""Rows of a table that names or explains something; larger ones hold what is not loaded."""

_DONE_AFTER: Mapping[str, EventTable] = {
    "kernels.sql": KERNELS,
    "runtime.sql": RUNTIME,
    "os_calls.sql": OS_CALLS,
    "nvtx.sql": NVTX,
}
"""The tables that may be large, and the last script to read them."""

_NOT_ARGS = frozenset({"start", "end", "timestamp", "globalTid", "globalPid", "nameId", "textId"})


def load_export(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report
) -> Loaded:
    """Fill the base tables of `con` from an export; `report` gets bytes of the file as read.

    Raises InputError if the file is no readable SQLite at all.
    """
    derive.stage(con)
    with open_export(trace.path) as export:
        rows = max(1, sum(map(export.rows_about, TABLES)))
        progress = _in_bytes(rows, trace.size_bytes, report)
        events = StagedEvents(con, export, source_id * OP_IDS_PER_SOURCE)
        events.read(progress)
        con.execute(_script("words.sql"))
        base_ns, _ = read_clock(export)
        events.show(trace, source_id, base_ns)
        world_size = max((p.world_size or 0 for p in trace.processes), default=0) or "NULL"
        con.execute(f"CREATE OR REPLACE TEMP MACRO nsys_world_size() AS {world_size}::INTEGER")
        read_references(con, export, events.filled)
        skipped = list(_skipped_tables(export))
        issues = [*skipped, *find_issues_of_rows(con, events.filled)]
        _translate(con, events)
        stored = count_stored(con, source_id)
        issues += find_issues(con, export, events.undecoded)
        _drop_temporary_tables(con)  # room for what sorts
        derive.finish(con, {source_id: trace})
        progress(rows)
        _check_descriptions(export)
        read = events.rows + sum(issue.count for issue in skipped)
        return Loaded(read, stored, issues, export.damage, _lacks_events(export))


def _translate(con: duckdb.DuckDBPyConnection, events: StagedEvents) -> None:
    """Turn the rows read into staged and stored events, all but what `derive.finish` does; drop the
    rows on the way.
    """
    for name, tables in _SCRIPTS.items():
        if not tables or any(re.match(tables, table.name) for table in events.filled):
            con.execute(_script(name))
            if name in _DONE_AFTER:
                events.drop(_DONE_AFTER[name])
    for table in events.filled:
        if table.category:
            con.execute(_as_other_events(table))
    derive.link(con)
    con.execute(_script("nccl_ranges.sql"))
    con.execute(_script("collectives.sql"))


def _as_other_events(table: EventTable) -> str:
    """Return the statement that stores the events of a table that needs no rule of its own."""
    # only names fixed in event_tables.tsv enter this text
    name = next((c for c in ("nameId", "textId") if c in table.types), "NULL")
    args = ", ".join(f"nsys_number('{c}', e.\"{c}\")" for c in table.types if c not in _NOT_ARGS)
    return f"""
        INSERT INTO base.other_events BY NAME
        SELECT
            e.rank, e.op_id, e.source_id,
            CASE WHEN e.duration_ns IS NULL THEN 'i' ELSE 'X' END AS phase,
            '{table.category}' AS category, coalesce(n.value, '{table.name}') AS name,
            e.pid::VARCHAR AS pid, e.tid::VARCHAR AS tid, e.start_local_ns, e.duration_ns,
            nsys_args(concat_ws(',', {args or "NULL"})) AS args
        FROM {table.staged} AS e LEFT JOIN nsys_strings AS n ON {name} = n.id
    """


def _skipped_tables(export: Export) -> Iterator[Issue]:
    for table, columns in sorted(export.tables.items()):
        if table in TABLES or not may_hold_events(table, columns):
            continue
        if count := export.count(table):
            held = NOT_LOADED.get(table, "events of an unknown table")
            yield Issue("skipped: " + table, count, f"not loaded: {held} ({table})")


def _lacks_events(export: Export) -> bool:
    """Tell whether what could not be read may have held events, which nobody counted."""
    return export.damaged is not None or any(
        may_hold_events(table, export.tables.get(table, frozenset())) for table in export.unreadable
    )


def _check_descriptions(export: Export) -> None:
    """Have all tables noted that cannot be read, also those of which no event needed a row."""
    read = {"StringIds", *TABLES, *export.unreadable}
    for table in sorted(export.tables.keys() - read):
        if export.rows_about(table) <= MOST_DESCRIPTIONS:
            export.check(table)


def _in_bytes(all_rows: int, size_bytes: int, report: Report) -> Report:
    """Return what reports rows read as bytes of the file, so that all reports sum to its size."""
    seen = 0

    def read(rows: int) -> None:
        nonlocal seen
        before, seen = seen, min(seen + rows, all_rows)
        report(size_bytes * seen // all_rows - size_bytes * before // all_rows)

    return read


def _drop_temporary_tables(con: duckdb.DuckDBPyConnection) -> None:
    rows = con.execute(
        "SELECT table_name FROM duckdb_tables()"
        " WHERE temporary AND starts_with(table_name, 'nsys_')"
    ).fetchall()
    for (name,) in rows:
        con.execute(f'DROP TABLE "{name}"')
