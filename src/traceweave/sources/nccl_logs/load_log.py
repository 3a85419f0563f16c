"""Load one log into base.nccl_communicators, base.nccl_calls and base.nccl_choices."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import duckdb
import pyarrow as pa

from traceweave.sources import derive
from traceweave.sources.batches import transaction
from traceweave.sources.model import Issue, Loaded, Report, Trace
from traceweave.sources.nccl_logs.lines import lines
from traceweave.sources.nccl_logs.log import MOST_KEYS, Log
from traceweave.sources.unpack import ByteStream

_LINES = 10_000
"""Lines that are read between looks at how much is in memory."""

_MEANINGS = {
    "line cut off": "messages of NCCL's log that end too early, as where processes share a file",
    "line without a beginning": "the rest of messages that another line, or the file's begin, cut",
}

_COMMUNICATORS = pa.schema([
    ("number", pa.int32()), ("host", pa.string()), ("pid", pa.int64()), ("identity", pa.string()),
    ("place", pa.int32()), ("size", pa.int32()), ("device", pa.int32()), ("nodes", pa.int32()),
    ("local_ranks", pa.int32()), ("channels", pa.int32()), ("nvls_channels", pa.int32()),
    ("p2p_channels", pa.int32()), ("ring_gbps", pa.float64()), ("paths", pa.string()),
    ("network", pa.string()), ("devices", pa.string()),
])  # fmt: skip
_CALLS = pa.schema([
    ("host", pa.string()), ("pid", pa.int64()), ("number", pa.int32()), ("name", pa.string()),
    ("count", pa.int64()), ("dtype", pa.string()), ("bytes", pa.int64()), ("calls", pa.int64()),
    ("line", pa.int64()),
])  # fmt: skip
_CHOICES = pa.schema([
    ("host", pa.string()), ("pid", pa.int64()), ("numbers", pa.list_(pa.int32())),
    ("name", pa.string()), ("bytes", pa.int64()), ("per_rank", pa.bool_()),
    ("algorithm", pa.string()), ("protocol", pa.string()), ("channels", pa.int32()),
    ("chosen", pa.int64()), ("line", pa.int64()),
])  # fmt: skip

_STAGE = """
CREATE OR REPLACE TEMP TABLE new_calls AS FROM read_calls LIMIT 0;
CREATE OR REPLACE TEMP TABLE new_choices AS FROM read_choices LIMIT 0;
"""

_HAND_ON = """
INSERT INTO new_calls BY NAME FROM read_calls;
INSERT INTO new_choices BY NAME FROM read_choices;
"""

_STORE = """
INSERT INTO base.nccl_communicators BY NAME
SELECT $source_id AS source_id, * FROM read_communicators;
INSERT INTO base.nccl_calls BY NAME
SELECT
    $source_id AS source_id, host, pid, number, collective_op(name) AS op, name, "count", dtype,
    bytes, sum(calls)::BIGINT AS calls, min(line) AS line
FROM new_calls GROUP BY ALL;
INSERT INTO base.nccl_choices BY NAME
SELECT
    $source_id AS source_id, host, pid, numbers,
    CASE WHEN name IS NOT NULL THEN collective_op(name) END AS op, name, bytes, per_rank,
    algorithm, protocol, channels, sum(chosen)::BIGINT AS chosen, min(line) AS line
FROM new_choices GROUP BY ALL;
"""


def load_log(
    con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report
) -> Loaded:
    """Fill the tables of NCCL's records from a log. Memory stays bounded, whatever its size.

    Raises:
        InputError: it is gzip and unpacks to an absurd size.
    """
    derive.stage(con)  # for the names of operations
    log = Log()
    read_calls, read_choices = _of_calls(log), _of_choices(log)  # SQL finds them  # noqa: F841
    con.execute(_STAGE)
    with trace.path.open("rb") as file:
        stream = ByteStream(file, report, most_bytes=trace.most_bytes)
        coming = lines(stream.text())
        while some := list(islice(coming, _LINES)):
            log.feed(some)
            if log.keys > MOST_KEYS:
                _hand_on(con, log)
    _hand_on(con, log)
    read_communicators = _of_communicators(log)  # noqa: F841
    with transaction(con):
        for statement in duckdb.extract_statements(_STORE):
            con.execute(statement, {"source_id": source_id})
    lost = sum(log.lost.values())
    issues = [Issue(kind, n, _MEANINGS[kind], log.example) for kind, n in log.lost.items()]
    return Loaded(log.stored + lost, log.stored, issues, stream.damaged, bool(stream.damaged))


def _hand_on(con: duckdb.DuckDBPyConnection, log: Log) -> None:
    """Move calls and choices from memory into staging tables."""
    read_calls, read_choices = _of_calls(log), _of_choices(log)  # noqa: F841
    con.execute(_HAND_ON)
    log.forget()


def _of_communicators(log: Log) -> pa.Table:
    return _table(_COMMUNICATORS, (
        {
            "number": c.number, "host": c.process[0], "pid": c.process[1], "identity": c.identity,
            "place": c.begun.place, "size": c.begun.size, "device": c.begun.device,
            "devices": log.devices.get(c.process), **c.facts,
        }
        for c in log.communicators
    ))  # fmt: skip


def _of_calls(log: Log) -> pa.Table:
    return _table(_CALLS, (
        dict(zip(_CALLS.names, (*process, *called, *seen), strict=True))
        for (process, *called), seen in log.calls.items()
    ))  # fmt: skip


def _of_choices(log: Log) -> pa.Table:
    return _table(_CHOICES, (
        dict(zip(_CHOICES.names, (
            *process, list(numbers), choice.op, choice.bytes, choice.per_rank, choice.algorithm,
            choice.protocol, choice.channels, *seen,
        ), strict=True))
        for (process, numbers, choice), seen in log.choices.items()
    ))  # fmt: skip


def _table(schema: pa.Schema, rows: Iterator[dict[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)
