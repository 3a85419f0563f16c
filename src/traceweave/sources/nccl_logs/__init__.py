"""NCCL's own logs (NCCL_DEBUG=INFO; NCCL 2.10 to 2.30, RCCL): which communicators a job had, and
which algorithm and protocol NCCL chose for which size.

One file may hold the lines of one process or of many, mixed.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import duckdb

from traceweave.sources import derive
from traceweave.sources.batches import transaction
from traceweave.sources.model import Issue, Loaded, Report, Trace
from traceweave.sources.nccl_logs.lines import LONGEST_LINE, word_end
from traceweave.sources.nccl_logs.log import Log
from traceweave.sources.unpack import ByteStream, bomb_bytes, read_head
from traceweave.store.rows import insert_rows

_HEAD_BYTES = 256 * 1024
_LINES = 10_000
"""Lines whose calls and choices are in memory at a time."""

_LINE = re.compile(rb"[^\s:]:\d{1,10}:\d{1,10} \[\d{1,4}\] (?:[\w./]+:\d+ )?NCCL (?:INFO|WARN) ")
_VERSION = re.compile(rb"\b([NR]CCL) version ?:? ?(\d+\.\d+\.\d+)")

_MEANINGS = {
    "line cut off": "messages of NCCL's log that end too early, as where processes share a file",
    "line without a beginning": "the rest of messages that another line, or the file's begin, cut",
}

_STAGE = """
CREATE OR REPLACE TEMP TABLE new_calls AS
SELECT * EXCLUDE (op, calls) FROM base.nccl_calls LIMIT 0;
CREATE OR REPLACE TEMP TABLE new_choices AS
SELECT * EXCLUDE (op, chosen) FROM base.nccl_choices LIMIT 0;
"""

_STORE = """
INSERT INTO base.nccl_calls BY NAME
SELECT *, collective_op(name) AS op
FROM (SELECT * EXCLUDE (line), count(*) AS calls, min(line) AS line FROM new_calls GROUP BY ALL);
INSERT INTO base.nccl_choices BY NAME
SELECT *, CASE WHEN name IS NOT NULL THEN collective_op(name) END AS op
FROM (SELECT * EXCLUDE (line), count(*) AS chosen, min(line) AS line FROM new_choices GROUP BY ALL);
"""


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a log of NCCL's, or has one in it, from its first bytes, unpacked."""
    # the words first: the pattern alone takes a millisecond of a file that has none of them
    return (
        b"NCCL " in head
        and head.lstrip()[:1] not in (b"{", b"\x80")
        and _LINE.search(head) is not None
    )


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a log. Its lines say which processes wrote them; it has no rank, and no times."""
    version = _VERSION.search(read_head(path, _HEAD_BYTES))
    return Trace(
        path=path,
        format="nccl_log",
        size_bytes=path.stat().st_size,
        processes=(),
        producer=version[1].decode() if version else "NCCL",
        producer_version=version[2].decode() if version else None,
        most_bytes=None if trust_packed else bomb_bytes(path),
        beside=True,
    )


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of NCCL's records from a log; `report` gets bytes of the file as read.

    Memory stays bounded, whatever its size. Raises InputError if it is gzip and unpacks to an
    absurd size.
    """
    derive.stage(con)  # for the names of operations
    con.execute(_STAGE)
    log = Log()
    of_source = {"source_id": source_id}
    select = "$source_id AS source_id, *"
    with trace.path.open("rb") as file, transaction(con):
        stream = ByteStream(file, report, most_bytes=trace.most_bytes)
        lines = stream.lines(LONGEST_LINE, word_end)
        while some := list(islice(lines, _LINES)):
            log.feed(some)
            for table, rows in (("new_calls", log.calls), ("new_choices", log.choices)):
                insert_rows(con, table, rows, select, of_source)
                rows.clear()
        insert_rows(con, "base.nccl_communicators", log.communicator_rows(), select, of_source)
        con.execute(_STORE)
    lost = sum(log.lost.values())
    issues = [Issue(kind, n, _MEANINGS[kind], log.example) for kind, n in log.lost.items()]
    return Loaded(log.stored + lost, log.stored, issues, stream.damaged, bool(stream.damaged))
