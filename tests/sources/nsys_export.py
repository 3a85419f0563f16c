"""Tiny nsys exports written row by row: tables of events have all columns that are read."""

import sqlite3
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from traceweave.sources.nsys.event_tables import TABLES

EPOCH_NS = 1_780_000_000_000_000_000
"""Session start of the exports written here."""

Row = Mapping[str, Any]


def process(pid: int) -> int:
    """The globalPid of a process."""
    return (1 << 48) | (pid << 24)


def thread(pid: int, tid: int | None = None) -> int:
    """The globalTid of a thread; the main thread unless told otherwise."""
    return process(pid) | (pid if tid is None else tid)


def write_export(path: Path, *, epoch: int | None = EPOCH_NS, **tables: Sequence[Row]) -> Path:
    """Write an export that holds these tables only; names may be given as text, see `named`."""
    if epoch is not None and "TARGET_INFO_SESSION_START_TIME" not in tables:
        tables = {"TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": epoch}], **tables}
    tables.setdefault("StringIds", [])
    strings = {row["value"]: row["id"] for row in tables["StringIds"]}
    with closing(sqlite3.connect(path)) as con:
        for table, rows in tables.items():
            if table != "StringIds":
                _insert(con, table, [_with_ids(row, strings) for row in rows])
        strings.setdefault("", 1)
        _insert(con, "StringIds", [{"id": i, "value": s} for s, i in strings.items()])
        con.commit()
    return path


def _with_ids(row: Row, strings: dict[str, int]) -> Row:
    """Replace texts in columns that refer to StringIds by ids, new ones if needed."""
    named = ("nameId", "textId", "demangledName", "shortName", "contentId", "filenameId")
    named += ("argumentsId", "pathId", "symbol", "module")
    return {
        column: strings.setdefault(value, 1000 + len(strings))
        if column in named and isinstance(value, str)
        else value
        for column, value in row.items()
    }


def _insert(con: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    known = [*TABLES[table].types] if table in TABLES else []
    columns = list(dict.fromkeys([*known, *(column for row in rows for column in row)])) or ["id"]
    quoted = ", ".join(f'"{c}"' for c in columns)
    con.execute(f"CREATE TABLE {table} ({quoted})")
    con.executemany(
        f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})",
        [[row.get(c) for c in columns] for row in rows],
    )


def kernel(pid: int, start: int, end: int, correlation: int, name: str, **more: Any) -> Row:
    """A kernel row on device 0, stream 7."""
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process(pid)}
    names = {"demangledName": name + "(int)", "shortName": name}
    times = {"start": start, "end": end, "correlationId": correlation}
    return {**times, **place, **names, **more}


def call(pid: int, start: int, end: int, correlation: int, name: str, **more: Any) -> Row:
    """A CUDA runtime call on the main thread."""
    times = {"start": start, "end": end, "correlationId": correlation}
    what = {"eventClass": 0, "globalTid": thread(pid), "nameId": name, "returnValue": 0}
    return {**times, **what, **more}


def nvtx(pid: int, start: int, end: int | None, name: str, **more: Any) -> Row:
    """An NVTX push/pop range on the main thread, name in `text` unless textId is given."""
    text = {} if "textId" in more else {"text": name}
    where = {"eventType": 59, "globalTid": thread(pid), "domainId": 0}
    return {"start": start, "end": end, **where, **text, **more}


def nccl(pid: int, start: int, end: int, name: str, payload: bytes | None = None) -> Row:
    """A range of NCCL's domain, with the name as a registered string and perhaps a payload."""
    return nvtx(pid, start, end, name, textId=name, domainId=1, binaryData=payload)


def blob(schema: int, fields: bytes) -> bytes:
    """A payload as nsys writes it: four words of header, then the C struct."""
    return struct.pack("<QQQQ", 1, schema, len(fields), 32) + fields


# the schemas of NCCL 2.27: types are 5 int, 18 uint64, 22 size_t, 16777232 the enum of reductions
INIT, ALL_GATHER, ALL_REDUCE, SEND, RECV = 16777218, 16777220, 16777221, 16777225, 16777226
_ID, _SIZE, _PEER = (18, "NCCL communicator ID"), (22, "Message size [bytes]"), (5, "Peer rank")
_FIELDS = {
    INIT: {0: _ID, 8: (5, "No. of ranks"), 12: (5, "Rank"), 16: (5, "CUDA device")},
    ALL_GATHER: {0: _ID, 8: _SIZE},
    ALL_REDUCE: {0: _ID, 8: _SIZE, 16: (16777232, "Reduction operation")},
    SEND: {0: _ID, 8: _SIZE, 16: _PEER},
    RECV: {0: _ID, 8: _SIZE, 16: _PEER},
}
NCCL_SCHEMAS: list[Row] = [
    {"domainId": 1, "schemaId": schema, "idx": i, "type": t, "name": name, "offset": at or None}
    for schema, fields in _FIELDS.items()
    for i, (at, (t, name)) in enumerate(fields.items())
]


def init_payload(comm: int, ranks: int, rank: int, device: int) -> bytes:
    """The payload of ncclCommInitRankConfig."""
    return blob(INIT, struct.pack("<Qiii4x", comm, ranks, rank, device))


def collective_payload(schema: int, comm: int, size: int, last: int | None = None) -> bytes:
    """The payload of a collective (last: reduction) or of a send or receive (last: peer)."""
    tail = b"" if last is None else struct.pack("<i4x", last)
    return blob(schema, struct.pack("<QQ", comm, size) + tail)
