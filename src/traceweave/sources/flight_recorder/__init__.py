"""Flight recorder: the dumps that torch's process groups leave of their last collectives (torch 2.3
to 2.15; NCCL and gloo; pickle and JSON), one file per rank.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from traceweave.sources import derive
from traceweave.sources.flight_recorder.dump import read_dump
from traceweave.sources.model import Issue, Loaded, Process, Report, Trace
from traceweave.store.rows import insert_rows

_OWN_KEYS = (b"pg_config", b"pg_status", b"profiling_name")
_KEYS = (*_OWN_KEYS, b"entries", b"version")


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is a dump from its first bytes: a pickle or JSON with a dump's keys."""
    is_pickle = head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05"
    if not is_pickle and not head.lstrip().startswith(b"{"):
        return False
    return any(key in head for key in _OWN_KEYS) and sum(key in head for key in _KEYS) >= 2


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a dump, which has to be read whole; nothing inside says its rank.

    Raises:
        InputError: it is damaged, or a pickle that holds more than plain values.
    """
    dump = read_dump(path)
    times = [entry["created_local_ns"] for entry in dump.entries if entry["created_local_ns"]]
    return Trace(
        path=path,
        format="flight_recorder",
        size_bytes=path.stat().st_size,
        processes=(Process(key=0),),
        producer="torch flight recorder",
        producer_version=dump.version,
        first_ns=min(times, default=None),
        last_ns=max(times, default=None),
        beside=True,
    )


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of the recorder from a dump.

    Raises:
        InputError: it is damaged, or a pickle that holds more than plain values.
    """
    dump = read_dump(trace.path)
    derive.stage(con)  # for the names of operations
    of = {"rank": trace.processes[0].rank, "source_id": source_id}
    columns = "$rank AS rank, $source_id AS source_id, *"
    calls = f"{columns}, collective_op(name) AS op"
    insert_rows(con, "base.flight_calls", dump.entries, calls, of)
    insert_rows(con, "base.flight_groups", dump.groups, columns, of)
    report(trace.size_bytes)
    unread = Issue(
        "no operation", dump.unread, "entries of a flight recorder without a name", dump.example
    )
    read = len(dump.entries) + dump.unread
    return Loaded(read, len(dump.entries), [unread] if dump.unread else [])
