"""Load the records of one file into base.nccl_inspected and base.nccl_communicators."""

from __future__ import annotations

from itertools import islice

import duckdb
import pyarrow as pa

from traceweave.sources import derive
from traceweave.sources.batches import transaction
from traceweave.sources.model import Issue, Loaded, Report, Trace
from traceweave.sources.nccl_inspector.records import Member, lines, read
from traceweave.sources.unpack import ByteStream

_LINES = 50_000
"""Records in memory at a time."""

_MEANINGS = {
    "record damaged": "lines of NCCL Inspector's that are no whole record",
    "record of another kind": "records of NCCL Inspector's about something else than an operation",
}

_MEASURED = pa.schema([
    ("record", pa.int64()), ("number", pa.int32()), ("name", pa.string()), ("is_p2p", pa.bool_()),
    ("nth", pa.int64()), ("peer_place", pa.int32()), ("bytes", pa.int64()),
    ("duration_ns", pa.int64()), ("timing", pa.string()), ("algbw_gbps", pa.float64()),
    ("busbw_gbps", pa.float64()), ("algorithm", pa.string()), ("protocol", pa.string()),
    ("start_local_ns", pa.int64()), ("end_local_ns", pa.int64()),
])  # fmt: skip
_MEMBERS = pa.schema([
    ("number", pa.int32()), ("host", pa.string()), ("pid", pa.int64()), ("identity", pa.string()),
    ("name", pa.string()), ("place", pa.int32()), ("size", pa.int32()), ("nodes", pa.int32()),
])  # fmt: skip

_STORE_MEASURED = """
INSERT INTO base.nccl_inspected BY NAME
SELECT $source_id AS source_id, collective_op(name) AS op, * FROM measured
"""
_STORE_MEMBERS = """
INSERT INTO base.nccl_communicators BY NAME SELECT $source_id AS source_id, * FROM members
"""


def load_records(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report
) -> Loaded:
    """Fill the tables of NCCL's records from a file of Inspector's.

    Raises:
        InputError: it is gzip and unpacks to an absurd size.
    """
    derive.stage(con)  # for the names of operations
    numbers: dict[Member, int] = {}
    lost: dict[str, list[str]] = {}
    counts = dict.fromkeys(_MEANINGS, 0)
    stored = 0
    with trace.path.open("rb") as file, transaction(con):
        stream = ByteStream(file, report, most_bytes=trace.most_bytes)
        coming = (line for line in lines(stream.text()) if line.strip())
        while some := list(islice(coming, _LINES)):
            rows: list[dict[str, object]] = []
            for line in some:
                found = read(line)
                if isinstance(found, str):
                    counts[found] += 1
                    lost.setdefault(found, []).append(line[:200].decode("utf-8", "replace"))
                    del lost[found][1:]
                else:
                    number = numbers.setdefault(found.member, len(numbers))
                    record = stored + len(rows)
                    rows.append({"record": record, "number": number, **vars(found)})
            stored += len(rows)
            measured = pa.Table.from_pylist(rows, schema=_MEASURED)  # noqa: F841
            con.execute(_STORE_MEASURED, {"source_id": source_id})
        members = pa.Table.from_pylist(  # noqa: F841
            [{"number": number, **vars(member)} for member, number in numbers.items()],
            schema=_MEMBERS,
        )
        con.execute(_STORE_MEMBERS, {"source_id": source_id})
    issues = [Issue(kind, counts[kind], _MEANINGS[kind], lost[kind][0]) for kind in lost]
    read_ = stored + sum(counts.values())
    return Loaded(read_, stored, issues, stream.damaged, bool(stream.damaged))
