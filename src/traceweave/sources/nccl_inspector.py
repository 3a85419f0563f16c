"""NCCL Inspector (a profiler plug-in of NCCL 2.28 and newer): one JSON object per operation and
line, format 4.0 to 4.2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import orjson

from traceweave.sources import derive
from traceweave.sources.batches import transaction
from traceweave.sources.model import Issue, Loaded, Report, Trace
from traceweave.sources.unpack import ByteStream, bomb_bytes, read_head
from traceweave.sources.values import listed, mapping, text, whole
from traceweave.store.rows import insert_rows

_HEAD_BYTES = 64 * 1024
_LINES = 50_000
"""Records in memory at a time."""
_LONGEST_LINE = 1 << 20
"""A verbose record has some 200 bytes per channel."""
_LONGEST_TEXT = 200

_VERSION = re.compile(rb'"inspector_output_format_version"\s*:\s*"v?([\d.]{1,20})"')

DAMAGED = "record damaged"
OTHER = "record of another kind"
_MEANINGS = {
    DAMAGED: "lines of NCCL Inspector's that are no whole record",
    OTHER: "records of NCCL Inspector's about something else than an operation",
}

_MOST = 2**62
_MOST_US = 4 * 10**15
_PER_RANK = frozenset({"AllGather", "AllGatherV", "ReduceScatter", "AlltoAll", "Gather", "Scatter"})
"""Operations of whose size each rank has as much: `n_ranks` times that is the whole."""


class Member(NamedTuple):
    """One process in one communicator, by the columns of `base.nccl_communicators`."""

    identity: str
    name: str | None
    place: int
    size: int
    nodes: int | None
    host: str | None
    pid: int


Measured = dict[str, Any]
"""One operation, by the columns of `base.nccl_inspected`."""


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file has Inspector's records from its first bytes, unpacked."""
    first = head.lstrip().partition(b"\n")[0]
    return first.startswith(b"{") and b'"header"' in first and _VERSION.search(first) is not None


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a file. Its records say which processes they are of, so it has no rank itself."""
    version = _VERSION.search(read_head(path, _HEAD_BYTES))
    return Trace(
        path=path,
        format="nccl_inspector",
        size_bytes=path.stat().st_size,
        processes=(),
        producer="NCCL Inspector",
        producer_version=version[1].decode() if version else None,
        most_bytes=None if trust_packed else bomb_bytes(path),
        beside=True,
    )


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of NCCL's records; `report` gets bytes of the file as read.

    Raises:
        InputError: it is gzip and unpacks to an absurd size.
    """
    derive.stage(con)  # for the names of operations
    numbers: dict[Member, int] = {}
    lost = Counter[str]()
    examples: dict[str, str] = {}
    stored = 0
    of_source = {"source_id": source_id}
    with trace.path.open("rb") as file, transaction(con):
        stream = ByteStream(file, report, most_bytes=trace.most_bytes)
        coming = (line for line in stream.lines(_LONGEST_LINE) if line.strip())
        while some := list(islice(coming, _LINES)):
            rows: list[Measured] = []
            for line in some:
                found = read(line)
                if isinstance(found, str):
                    lost[found] += 1
                    examples.setdefault(found, line[:200].decode("utf-8", "replace"))
                else:
                    member, measured = found
                    number = numbers.setdefault(member, len(numbers))
                    rows.append({"record": stored + len(rows), "number": number, **measured})
            stored += len(rows)
            select = "$source_id AS source_id, collective_op(name) AS op, *"
            insert_rows(con, "base.nccl_inspected", rows, select, of_source)
        members = [{"number": number, **of._asdict()} for of, number in numbers.items()]
        insert_rows(
            con, "base.nccl_communicators", members, "$source_id AS source_id, *", of_source
        )
    issues = [Issue(kind, n, _MEANINGS[kind], examples[kind]) for kind, n in lost.items()]
    return Loaded(stored + lost.total(), stored, issues, stream.damaged, stream.damaged is not None)


def read(line: bytes) -> tuple[Member, Measured] | str:
    """Return the operation that a line is of and who measured it, or why it is none: DAMAGED or
    OTHER.
    """
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return DAMAGED
    if not isinstance(content, dict):
        return DAMAGED
    for kind in ("coll", "p2p"):
        performance = content.get(f"{kind}_perf")
        if isinstance(performance, dict):
            member = _member(mapping(content.get("header")), mapping(content.get("metadata")))
            measured = member and _measured(member, kind, performance)
            return (member, measured) if member and measured else DAMAGED
    return OTHER


def _member(header: Mapping[str, object], metadata: Mapping[str, object]) -> Member | None:
    hash_ = text(header.get("id"))
    size, pid = whole(header.get("n_ranks"), 10**9 - 1), whole(metadata.get("pid"), _MOST)
    place = None if size is None else whole(header.get("rank"), size - 1)
    if hash_ is None or re.fullmatch("0x[0-9a-fA-F]{1,16}", hash_) is None:
        return None
    if place is None or size is None or pid is None:
        return None
    name = text(header.get("comm_name"), _LONGEST_TEXT)
    return Member(
        identity=f"0x{int(hash_, 16):x}",
        name=None if name == "unknown" else name,
        place=place,
        size=size,
        nodes=whole(header.get("nnodes"), 10**9),
        host=text(metadata.get("hostname"), _LONGEST_TEXT),
        pid=pid,
    )


def _measured(member: Member, kind: str, found: Mapping[str, object]) -> Measured | None:
    name = text(found.get(kind), _LONGEST_TEXT)
    length = whole(found.get(f"{kind}_exec_time_us"), _MOST_US)
    if name is None or length is None:
        return None
    size = whole(found.get(f"{kind}_msg_size_bytes"), _MOST)
    if size is not None and name in _PER_RANK:
        size *= member.size
    start, end = _times(mapping(found.get("event_trace_ts")))
    return {
        "name": name,
        "is_p2p": kind == "p2p",
        "nth": whole(found.get(f"{kind}_sn"), _MOST),
        "peer_place": whole(found.get("p2p_peer"), 10**9),
        "bytes": whole(size, _MOST),
        "duration_ns": length * 1000,
        "timing": text(found.get(f"{kind}_timing_source"), _LONGEST_TEXT),
        "algbw_gbps": _float(found.get(f"{kind}_algobw_gbs")),
        "busbw_gbps": _float(found.get(f"{kind}_busbw_gbs")),
        "algorithm": _upper(found.get(f"{kind}_algo")),
        "protocol": _upper(found.get(f"{kind}_proto")),
        "start_local_ns": start,
        "end_local_ns": end,
    }


def _times(trace: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return when the first of its channels began and the last ended, ns since the epoch."""
    channels = [mapping(one) for one in listed(trace.get("kernel_events"))]
    times = [
        whole(channel.get(key), _MOST_US, least=1)  # 0: nobody noticed
        for channel in channels
        for key in ("kernel_start_ts", "kernel_stop_ts")
    ]
    known = [us for us in times if us is not None]
    if not known or len(known) < len(times):
        return None, None
    return min(known) * 1000, max(known) * 1000


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _upper(value: object) -> str | None:
    found = text(value, _LONGEST_TEXT)
    return None if found is None else found.upper()
