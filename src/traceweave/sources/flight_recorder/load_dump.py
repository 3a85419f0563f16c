"""Load one dump into base.flight_calls and base.flight_groups."""

from __future__ import annotations

from dataclasses import asdict, fields

import duckdb
import pyarrow as pa

from traceweave.sources import derive
from traceweave.sources.flight_recorder.dump import Entry, Group, read_dump
from traceweave.sources.model import Issue, Loaded, Report, Trace

_LISTS = {
    "input_sizes": pa.list_(pa.list_(pa.int64())),
    "output_sizes": pa.list_(pa.list_(pa.int64())),
    "input_dtypes": pa.list_(pa.string()),
    "output_dtypes": pa.list_(pa.string()),
    "ranks": pa.list_(pa.int32()),
}
_TEXTS = ("group", "description", "name", "state")
_FLAGS = ("is_p2p", "retired")

_CALLS = """
INSERT INTO base.flight_calls BY NAME
SELECT
    $rank AS rank, $source_id AS source_id, e.record AS record_id,
    e."group" AS group_name, g.description AS group_desc, g.ranks AS group_ranks,
    e.seq, e.p2p_seq, e.is_p2p, collective_op(e.name) AS op, e.name, e.peer_place,
    e.input_sizes, e.input_dtypes, e.output_sizes, e.output_dtypes, e.state, e.retired,
    e.created_ns AS created_local_ns, e.started_ns AS started_local_ns,
    e.completed_ns AS completed_local_ns, e.duration_ns, e.timeout_ns
FROM entries AS e LEFT JOIN groups_of_rank AS g ON e."group" = g.name
"""

_GROUPS = """
INSERT INTO base.flight_groups BY NAME
SELECT
    $rank AS rank, $source_id AS source_id,
    name AS group_name, description AS group_desc, ranks AS group_ranks,
    enqueued AS last_enqueued, started AS last_started, completed AS last_completed
FROM groups_of_rank
"""


def load_dump(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report
) -> Loaded:
    """Fill the tables of the recorder from a dump.

    Raises:
        InputError: it is damaged, or a pickle that holds more than plain values.
    """
    dump = read_dump(trace.path)
    derive.stage(con)  # for the names of operations
    entries = _table(Entry, [asdict(entry) for entry in dump.entries])  # noqa: F841
    groups_of_rank = _table(Group, [asdict(group) for group in dump.groups])  # noqa: F841
    of = {"rank": trace.processes[0].rank, "source_id": source_id}
    con.execute(_CALLS, of)
    con.execute(_GROUPS, of)
    report(trace.size_bytes)
    unread = Issue(
        "no operation", dump.unread, "entries of a flight recorder without a name", dump.example
    )
    read = len(dump.entries) + dump.unread
    return Loaded(read, len(dump.entries), [unread] if dump.unread else [])


def _table(kind: type[Entry] | type[Group], rows: list[dict[str, object]]) -> pa.Table:
    schema = pa.schema([(field.name, _type(field.name)) for field in fields(kind)])
    return pa.Table.from_pylist(rows, schema=schema)


def _type(name: str) -> pa.DataType:
    if name in _LISTS:
        return _LISTS[name]
    if name in _FLAGS:
        return pa.bool_()
    return pa.string() if name in _TEXTS else pa.int64()
