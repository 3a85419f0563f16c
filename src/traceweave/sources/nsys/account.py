"""What became of the events of an export: how many are stored, which are not and why.

Issues whose kind begins with 'skipped' count events that are not stored; all others are remarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import duckdb

from traceweave.sources.model import Issue
from traceweave.sources.nsys.event_tables import (
    GRAPH_TRACE,
    NVTX,
    NVTX_RANGES,
    RUNTIME,
    EventTable,
)
from traceweave.sources.nsys.export import Export
from traceweave.vocabulary import names

_STORED = """
    SELECT op_id FROM new_gpu_ops
    UNION ALL SELECT op_id FROM new_host_ops
    UNION ALL SELECT op_id FROM base.other_events WHERE source_id = $1
    UNION ALL SELECT op_id FROM base.memory_events WHERE source_id = $1
    UNION ALL SELECT op_id FROM base.counters WHERE source_id = $1
"""

NEWEST_SCHEMA = (3, 28)
"""Of nsys 2026.4."""
KNOWN_NVTX_TYPES = (*range(33, 40), 59, 60, *range(64, 77), 97, 98, 99)
"""Categories, marks, thread names, ranges, domains, the same as text imports, names of CUDA
objects.
"""
KNOWN_CALL_CLASSES = (0, 1, 67)
"""Runtime, driver, backtrace."""

_OPEN_RANGES = (
    "open NVTX range",
    f'{NVTX.staged} WHERE eventType IN ({NVTX_RANGES}) AND "end" IS NULL',
    "ranges still open when the recording ended are cut at its last event",
)
_UNLAUNCHED = (
    "launch not found",
    # copies of unified memory have no launch by nature; anything else lost its call
    "new_gpu_ops WHERE launch_op_id IS NULL AND rank IS NOT NULL"
    " AND NOT coalesce(starts_with(copy_kind, 'UVM'), FALSE)",
    "GPU work whose launching call is not in the report"
    " (the recording or a slice of it began between the two)",
)
_GRAPHS = (
    "CUDA graphs as a whole",
    GRAPH_TRACE.judged,
    "each launch of a CUDA graph is one op 'CUDA graph': its kernels and collectives"
    " were not recorded; record with --cuda-graph-trace=node to see them",
)
_UNRECORDED_GRAPHS = (
    "CUDA graphs not recorded",
    "new_host_ops SEMI JOIN"
    f" (FROM host_names WHERE {names('launching', 'name')} = 'graph') AS n USING (kind, name)",
    "CUDA graphs were launched but their GPU work has no rows; record with --cuda-graph-trace=node",
)
_WITHOUT_BYTES = (
    "collectives without size",
    "new_collective_calls WHERE bytes IS NULL AND gpu_op_id IS NOT NULL",
    "NCCL's payloads (sizes, communicators, peers) are not in this export; if NCCL is 2.16"
    " or later, export again: nsys export --type sqlite --include-blobs=true"
    " --force-overwrite=true REPORT.nsys-rep",
)
"""Kinds of issues, the rows that they are, and what they mean."""


def count_stored(con: duckdb.DuckDBPyConnection, source_id: int) -> int:
    """Return how many events of this source are staged or stored; each is in one table only."""
    ((count,),) = con.execute(f"SELECT count(*) FROM ({_STORED})", [source_id]).fetchall()
    return int(count)


def find_issues_of_rows(
    con: duckdb.DuckDBPyConnection, tables: Sequence[EventTable]
) -> Iterator[Issue]:
    """Yield what is wrong with the rows of the export as they are, before they are dropped."""
    for table in tables:
        yield from _bad_times(con, table)
    yield from _any(con, *_OPEN_RANGES)
    yield from _unknown_kinds(con)
    yield from _diagnostics(con)


def find_issues(
    con: duckdb.DuckDBPyConnection, export: Export, undecoded_payloads: int
) -> Iterator[Issue]:
    """Yield what went wrong or is missing, the staged events being complete."""
    yield from _any(con, *_UNLAUNCHED)
    whole = list(_any(con, *_GRAPHS))
    yield from whole
    if not whole and any(
        name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE") and value == "Graph"
        for name, value in export.pairs("META_DATA_CAPTURE")
    ):
        yield from _any(con, *_UNRECORDED_GRAPHS)
    yield from _any(con, *_WITHOUT_BYTES)
    yield from _unknown_schema(export)
    if frames := export.count("CUDA_CALLCHAINS") + export.count("OSRT_CALLCHAINS"):
        left_out = "stack frames of CUDA and OS calls are left out"
        yield Issue("call chains not read", frames, left_out)
    if undecoded_payloads:
        left_out = "NVTX payloads of an unknown layout were left out of args"
        yield Issue("payload not decoded", undecoded_payloads, left_out)


def _bad_times(con: duckdb.DuckDBPyConnection, table: EventTable) -> Iterator[Issue]:
    rows = con.execute(f"SELECT fault, count(*) FROM {table.judged} GROUP BY fault").fetchall()
    counts = dict(rows)
    for fault in table.faults:
        if fault in counts:
            yield Issue(f"skipped: {table.name}", counts[fault], f"events {fault} ({table.name})")


def _unknown_kinds(con: duckdb.DuckDBPyConnection) -> Iterator[Issue]:
    """Yield one row per column of codes that holds codes of no known meaning."""
    for what, table, column, known in (
        ("NVTX event type", NVTX.staged, "eventType", KNOWN_NVTX_TYPES),
        ("class of CUDA call", RUNTIME.staged, "eventClass", KNOWN_CALL_CLASSES),
    ):
        rows = con.execute(
            f"SELECT {column}, count(*) FROM {table}"
            f" WHERE {column} IS NOT NULL AND NOT list_contains($known, {column})"
            " GROUP BY 1 ORDER BY 1",
            {"known": list(known)},
        ).fetchall()
        if rows:
            codes = ", ".join(str(code) for code, _ in rows[:5])
            yield Issue(
                f"unknown {what}",
                sum(count for _, count in rows),
                f"events whose {column} is of unknown meaning are kept in other_events",
                codes,
            )


def _unknown_schema(export: Export) -> Iterator[Issue]:
    match = re.match(r"(\d{1,4})\.(\d{1,4})", export.options.get("EXPORT_SCHEMA_VERSION", ""))
    if match and (int(match[1]), int(match[2])) > NEWEST_SCHEMA:
        newest = ".".join(map(str, NEWEST_SCHEMA))
        yield Issue(
            "unknown export schema",
            1,
            f"the export is of a schema newer than {newest}, the last one known here: columns"
            " renamed since are missing",
            match[0],
        )


def _diagnostics(con: duckdb.DuckDBPyConnection) -> Iterator[Issue]:
    rows = con.execute(
        "SELECT severity, count(*), arg_min(text, timestamp) FROM nsys_diagnostic_event"
        " WHERE severity IN (2, 3) GROUP BY severity ORDER BY severity DESC"
    ).fetchall()
    for severity, count, text in rows:
        word = "error" if severity == 3 else "warning"
        yield Issue(f"profiler {word}", count, f"nsys recorded {word}s about itself", text)


def _any(con: duckdb.DuckDBPyConnection, kind: str, rows: str, meaning: str) -> Iterator[Issue]:
    """Yield the issue that these rows are, if there are any."""
    ((count,),) = con.execute(f"SELECT count(*) FROM {rows}").fetchall()
    if count:
        yield Issue(kind, count, meaning)
