"""Load Kineto files into the base tables, one or several at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import duckdb

from traceweave.errors import InputError
from traceweave.sources import derive
from traceweave.sources.captured import Captured, store_captured
from traceweave.sources.kineto.first_steps import leave_out_later
from traceweave.sources.kineto.parts import merged, part_events
from traceweave.sources.kineto.probe import describe_process, wrote_at_once
from traceweave.sources.kineto.properties import Properties, parse_properties
from traceweave.sources.kineto.reader import Reading, count_events, read_events, stage_events
from traceweave.sources.model import (
    OP_IDS_PER_SOURCE,
    File,
    Issue,
    Loaded,
    Process,
    Report,
    Trace,
)
from traceweave.store.rows import insert_rows
from traceweave.store.schema import LEAST_PAUSE_NS
from traceweave.vocabulary import script

_script = partial(script, __package__)

# Planning a statement takes milliseconds, also where no event needs it: scripts by what needs them.
_OF_SOME_FILES = {"arrow": "arrows.sql", "memory": "memory.sql", "counter": "counters.sql"}
_KERNELS = "SELECT 1 FROM classified WHERE category = 'communication' LIMIT 1"
_MESSAGES = (
    "SELECT 1 FROM new_host_ops WHERE name = 'record_param_comms' AND is_message(args) LIMIT 1"
)
_ON_HOSTS = (
    "SELECT 1 FROM host_names"
    " WHERE (kind, part) IN (('annotation', 'host'), ('op', 'operator')) LIMIT 1"
)
_MAY_BE_HALVES = "SELECT 1 FROM classified WHERE contains(name, 'internode_ll::') LIMIT 1"
_COLLECTIVES = (
    ((_KERNELS,), "communication_kernels.sql"),
    ((_KERNELS, _MESSAGES), "batched_messages.sql"),
    ((_KERNELS,), "kernel_collectives.sql"),
    ((_MAY_BE_HALVES,), "halves.sql"),
    ((_ON_HOSTS,), "host_collectives.sql"),
)
"""Scripts in their order, with what has to be there for each."""

_TIMES = """
SELECT source_id FROM event_kinds WHERE lane IN ('span', 'mark', 'counter', 'memory')
GROUP BY source_id HAVING bool_or(has_zero) OR max(last_ns) - min(first_ns) > 86_400_000_000_000
"""
"""Whether files may have times that cannot be: no recording takes a day."""

_TIMED_OPERATORS = "SELECT 1 FROM event_kinds WHERE pid = 'CUDA functions'"
"""Whether a file is of torch.autograd.profiler, before Kineto."""
_MENDED = {_TIMES: "unusable_times.sql", _TIMED_OPERATORS: "timed_operators.sql"}

_SEEN = """
SELECT source_id, sum(events)::BIGINT, min(first_row), list(DISTINCT lane)
FROM event_kinds GROUP BY source_id
"""
_OVERLAID = """
SELECT rank FROM new_host_ops
WHERE kind IN ('runtime', 'driver') AND correlation IS NOT NULL
GROUP BY rank HAVING count(*) >= greatest(64, 1.5 * count(DISTINCT correlation))
"""
"""A profiler counts calls: hardly ever have two of them one number."""

_LOST = {
    "no phase": "events without a phase",
    "no usable timestamp": (
        "events whose timestamp is missing, not a number, or far from all others: left out, as"
        " nobody knows when they were"
    ),
    "no usable duration": (
        "events whose duration is not a number, or far longer than the recording: left out"
    ),
    "negative duration": "events that end before they start",
    "unpaired B/E": "begin or end events without their partner",
    "unpaired arrow": "flow events whose partner or operation is not in the file",
    "damaged event": "events that are not valid JSON, cut off, overwritten or larger than 64 MiB",
}


@dataclass(frozen=True)
class _Read:
    """One file whose events are in new_events."""

    trace: Trace
    reading: Reading
    properties: Properties


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the base tables of `con` with the events of `trace`, as `load_together` does."""
    (loaded,) = load_together(con, [File(trace, source_id, report)])
    return loaded


def load_together(con: duckdb.DuckDBPyConnection, files: Sequence[File]) -> list[Loaded]:
    """Fill the base tables of `con` with the events of files that have no rank in common.

    Each statement takes them all: planning it takes longer than a small file. If a file fails, all
    do. Not in one transaction: what is dropped in one keeps its memory and its disk until the end.

    Raises:
        InputError: a file has no traceEvents array, unpacks to more than it may, or holds several
            processes that nothing tells apart.
    """
    derive.stage(con)
    stage_events(con)
    read = {file.source_id: _read(con, file) for file in files}
    leave_out_later(con, {f.source_id: f.trace.beginning for f in files if f.trace.beginning})
    count_events(con)
    for sign, mending in _MENDED.items():
        if con.execute(sign).fetchall():
            con.execute(_script(mending))
            count_events(con)
    _part(con, read)
    seen = con.execute(_SEEN).fetchall()
    events = {source_id: count for source_id, count, _, _ in seen}
    _describe_sources(con, read, {source_id: first for source_id, _, first, _ in seen})
    _sort(con, {lane for *_, lanes in seen for lane in lanes})
    if con.execute(_OVERLAID).fetchall():
        raise InputError(
            "its calls have the same correlation ids several times over, as where the traces of"
            " processes with one pid were merged: they cannot be told apart; give the ranks' own"
            " files"
        )
    loaded = _account(con, read, events)
    con.execute("DROP TABLE new_events")  # most of the memory
    derive.link(con)
    _find_collectives(con)
    derive.finish(con, {source_id: of.trace for source_id, of in read.items()})
    store_captured(con, _captured(read))
    return loaded


def _captured(read: Mapping[int, _Read]) -> Iterator[tuple[int, int, Captured]]:
    for source_id, of in read.items():
        for rank in of.trace.by_rank:
            # the top level of a merged file is that of the first process
            if len(of.trace.processes) == 1 or rank == of.properties.process.rank:
                yield rank, source_id, of.properties.captured


def _read(con: duckdb.DuckDBPyConnection, file: File) -> _Read:
    reading = read_events(con, file.trace, file.report, file.source_id)
    properties = parse_properties(reading.head, reading.tail)
    return _Read(_with_whole_top_level(file.trace, properties), reading, properties)


def _with_whole_top_level(trace: Trace, properties: Properties) -> Trace:
    """Return the trace with what a probe that stopped at the head could not know."""
    if len(trace.processes) > 1:
        return trace  # one offset cannot put a merged file on the common clock
    trace = replace(trace, base_ns=properties.base_ns)
    if not trace.processes:
        return trace
    (known,) = trace.processes
    told = describe_process(trace.path, properties, known.pid)
    process = replace(
        told, rank=known.rank, rank_source=known.rank_source, recording=known.recording
    )
    return replace(trace, processes=(process,))


def _part(con: duckdb.DuckDBPyConnection, read: Mapping[int, _Read]) -> None:
    """Give the events of merged files their parts, as the probe found them."""
    for source_id in sorted(merged(con)):
        of = read[source_id]
        damaged = wrote_at_once(of.reading)
        parts = part_events(con, source_id, of.properties.process, damaged=damaged)
        if len(parts) != len(of.trace.processes):
            raise InputError(
                f"it holds the events of {len(parts)} processes, which a look at its ends did not"
                " show; give the ranks' own files"
            )


def _describe_sources(
    con: duckdb.DuckDBPyConnection, read: Mapping[int, _Read], first_rows: Mapping[int, int]
) -> None:
    insert_rows(con, "new_source", (
        {
            "source_id": n, "part": process.key, "rank": process.rank,
            "world_size": process.world_size, "base_ns": of.properties.base_ns,
            # of the row 0
            "first_op_id": n * OP_IDS_PER_SOURCE - first_rows.get(n, 0),
            "is_merged": len(of.trace.processes) > 1,
        }
        for n, of in read.items()
        for process in of.trace.processes or (Process(0),)
    ))  # fmt: skip
    groups = ((n, group) for n, of in read.items() for group in of.properties.groups)
    insert_rows(con, "new_groups", ({"source_id": n, **group} for n, group in groups))


def _sort(con: duckdb.DuckDBPyConnection, lanes: set[str]) -> None:
    """Put every event into the staging table or base table of its kind."""
    con.execute(_script("events.sql"))
    for lane, name in _OF_SOME_FILES.items():
        if lane in lanes:
            con.execute(_script(name))


def _find_collectives(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_script("macros.sql"))
    con.execute(f"CREATE OR REPLACE TEMP MACRO least_pause_ns() AS {LEAST_PAUSE_NS}")
    for needed, name in _COLLECTIVES:
        if all(con.execute(any_of_them).fetchall() for any_of_them in needed):
            con.execute(_script(name))


def _account(
    con: duckdb.DuckDBPyConnection, read: Mapping[int, _Read], events: Mapping[int, int]
) -> list[Loaded]:
    """Count what was read of each file, and what of it is in no table, by kind."""
    lost = con.execute(_script("lost.sql")).fetchall()
    lost += [
        (n, "damaged event", of.reading.unparsed.count, of.reading.unparsed.example)
        for n, of in read.items()
        if of.reading.unparsed.count
    ]
    loaded = []
    for n, of in read.items():
        issues = [Issue(kind, count, _LOST[kind], eg) for m, kind, count, eg in lost if m == n]
        count = events.get(n, 0) + of.reading.unparsed.count
        loaded.append(Loaded(
            count, count - sum(issue.count for issue in issues), issues,
            of.reading.damaged or of.properties.damaged,
            of.reading.cut_short or of.properties.more_events,
        ))  # fmt: skip
    return loaded
