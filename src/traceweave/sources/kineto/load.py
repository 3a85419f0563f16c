"""Load one Kineto file into the base tables."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache
from importlib import resources

import duckdb

from traceweave.sources import derive
from traceweave.sources.kineto.probe import describe_process
from traceweave.sources.kineto.properties import Properties, parse_properties
from traceweave.sources.kineto.reader import read_events
from traceweave.sources.kineto.repair import Unparsed
from traceweave.sources.model import OP_IDS_PER_SOURCE, Issue, Loaded, Process, Report, Trace

# Planning a statement takes milliseconds, also where no event needs it: scripts by what needs them.
_OF_SOME_FILES = {"arrow": "arrows.sql", "memory": "memory.sql", "counter": "counters.sql"}
_COLLECTIVES = {
    "SELECT 1 FROM classified WHERE category = 'communication' LIMIT 1": "kernel_collectives.sql",
    "SELECT 1 FROM new_host_ops WHERE kind = 'annotation'"
    " AND collective_range(name) = 'host' LIMIT 1": "host_collectives.sql",
}

_LOST = {
    "no phase": "events without a phase",
    "no usable timestamp": "events whose timestamp is missing, not a number or out of range",
    "no usable duration": "events whose duration is not a number or out of range",
    "negative duration": "events that end before they start",
    "unpaired B/E": "begin or end events without their partner",
    "unpaired arrow": "flow events whose partner or operation is not in the file",
    "damaged event": "events that are not valid JSON, cut off or larger than 64 MiB",
}


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the base tables of `con` with the events of `trace`.

    Not in one transaction: what is dropped in one keeps its memory and its disk until the end.

    Raises:
        InputError: the file has no traceEvents array, or unpacks to more than it may.
    """
    derive.stage(con)
    reading = read_events(con, trace, report)
    properties = parse_properties(reading.head, reading.tail)
    trace = _with_whole_top_level(trace, properties)
    _describe_source(con, trace, source_id, properties)
    _sort(con)
    loaded = replace(
        _account(con, reading.unparsed),
        damaged=reading.damaged or properties.damaged,
        cut_short=reading.cut_short or properties.more_events,
    )
    con.execute("DROP TABLE new_events")  # most of the memory
    derive.link(con)
    _find_collectives(con)
    derive.finish(con, source_id, trace)
    _store_probes(con, trace, source_id, properties)
    return loaded


def _store_probes(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, properties: Properties
) -> None:
    """Keep what the ranks' clocks said of each other."""
    rank = trace.processes[0].rank if trace.processes else None
    exchanges = properties.captured.exchanges
    if rank is None or not exchanges:
        return
    con.execute(
        "INSERT INTO base.clock_probes BY NAME SELECT $rank AS rank, $source_id AS source_id,"
        " unnest($exchanges, recursive := true)",
        {"rank": rank, "source_id": source_id, "exchanges": [asdict(one) for one in exchanges]},
    )


def _with_whole_top_level(trace: Trace, properties: Properties) -> Trace:
    """Return the trace with what a probe that stopped at the head could not know."""
    if not trace.processes:
        return trace
    (known,) = trace.processes
    told = describe_process(trace.path, properties, known.pid)
    process = replace(told, rank=known.rank, rank_source=known.rank_source)
    return replace(trace, processes=(process,))


def _describe_source(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, properties: Properties
) -> None:
    process = trace.processes[0] if trace.processes else Process(key=0)
    con.execute(
        "CREATE OR REPLACE TEMP TABLE new_source AS SELECT $1::INTEGER AS source_id,"
        " $2::INTEGER AS rank, $3::INTEGER AS world_size, $4::BIGINT AS base_ns,"
        " $5::BIGINT AS first_op_id",
        [
            source_id,
            process.rank,
            process.world_size,
            properties.base_ns,
            source_id * OP_IDS_PER_SOURCE,
        ],
    )
    con.execute(
        "CREATE OR REPLACE TEMP TABLE new_groups AS SELECT unnest($1::VARCHAR[]) AS name,"
        " unnest($2::VARCHAR[]) AS description, unnest($3::INTEGER[][]) AS ranks,"
        " unnest($4::INTEGER[]) AS size",
        [
            [group.name for group in properties.groups],
            [group.description for group in properties.groups],
            [group.ranks for group in properties.groups],
            [group.size for group in properties.groups],
        ],
    )


def _sort(con: duckdb.DuckDBPyConnection) -> None:
    """Put every event into the staging table or base table of its kind."""
    con.execute(_script("events.sql"))
    lanes = {lane for (lane,) in con.execute("SELECT DISTINCT lane FROM new_events").fetchall()}
    for lane, script in _OF_SOME_FILES.items():
        if lane in lanes:
            con.execute(_script(script))


def _find_collectives(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(_script("macros.sql"))
    for any_of_them, script in _COLLECTIVES.items():
        if con.execute(any_of_them).fetchall():
            con.execute(_script(script))


def _account(con: duckdb.DuckDBPyConnection, unparsed: Unparsed) -> Loaded:
    """Count what was read, and what of it is in no table, by kind."""
    read = _count(con, "SELECT count(*) FROM new_events") + unparsed.count
    lost = con.execute(_script("lost.sql")).fetchall()
    issues = [Issue(kind, count, _LOST[kind], example) for kind, count, example in lost]
    if unparsed.count:
        kind = "damaged event"
        issues.append(Issue(kind, unparsed.count, _LOST[kind], unparsed.example))
    return Loaded(read, read - sum(i.count for i in issues), issues)


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0])


@cache
def _script(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
