"""What a record of Inspector's says, by one set of names for all versions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import orjson

LONGEST_LINE = 1 << 20
"""A verbose record has some 200 bytes per channel."""

_MOST = 2**62
_MOST_US = 4 * 10**15
_PER_RANK = frozenset({"AllGather", "AllGatherV", "ReduceScatter", "AlltoAll", "Gather", "Scatter"})
"""Operations of whose size each rank has as much: `n_ranks` times that is the whole."""


@dataclass(frozen=True)
class Member:
    """One process in one communicator, under the names of `base.nccl_communicators`."""

    identity: str
    name: str | None
    place: int
    size: int
    nodes: int | None
    host: str | None
    pid: int


@dataclass(frozen=True)
class Measured:
    """One operation, under the names of `base.nccl_inspected`."""

    member: Member
    name: str
    is_p2p: bool
    nth: int | None
    peer_place: int | None
    bytes: int | None
    duration_ns: int
    timing: str | None
    algbw_gbps: float | None
    busbw_gbps: float | None
    algorithm: str | None
    protocol: str | None
    start_local_ns: int | None
    end_local_ns: int | None


def lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines; of one that is too long to be a record its pieces."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = b""
    if rest:
        yield rest


def read(line: bytes) -> Measured | str:
    """Return the operation that a line is of, or why it is none: 'record damaged' or 'record of
    another kind'.
    """
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "record damaged"
    if not isinstance(content, dict):
        return "record damaged"
    for kind in ("coll", "p2p"):
        performance = content.get(f"{kind}_perf")
        if isinstance(performance, dict):
            member = _member(_mapping(content.get("header")), _mapping(content.get("metadata")))
            measured = None if member is None else _measured(member, kind, performance)
            return measured or "record damaged"
    return "record of another kind"


def _member(header: Mapping[str, object], metadata: Mapping[str, object]) -> Member | None:
    hash_, place, size = header.get("id"), _int(header.get("rank")), _int(header.get("n_ranks"))
    pid = _int(metadata.get("pid"))
    if not isinstance(hash_, str) or re.fullmatch("0x[0-9a-fA-F]{1,16}", hash_) is None:
        return None
    if place is None or size is None or pid is None or not 0 <= place < size < 10**9:
        return None
    name = _text(header.get("comm_name"))
    return Member(
        identity=f"0x{int(hash_, 16):x}",
        name=None if name == "unknown" else name,
        place=place,
        size=size,
        nodes=_int(header.get("nnodes")),
        host=_text(metadata.get("hostname")),
        pid=pid,
    )


def _measured(member: Member, kind: str, found: Mapping[str, object]) -> Measured | None:
    name, length = _text(found.get(kind)), _int(found.get(f"{kind}_exec_time_us"))
    if name is None or length is None or not 0 <= length < _MOST_US:
        return None
    size = _int(found.get(f"{kind}_msg_size_bytes"))
    if size is not None and name in _PER_RANK:
        size *= member.size
    start, end = _times(_mapping(found.get("event_trace_ts")))
    return Measured(
        member=member,
        name=name,
        is_p2p=kind == "p2p",
        nth=_int(found.get(f"{kind}_sn")),
        peer_place=_int(found.get("p2p_peer")),
        bytes=size if size is not None and size < _MOST else None,
        duration_ns=length * 1000,
        timing=_text(found.get(f"{kind}_timing_source")),
        algbw_gbps=_float(found.get(f"{kind}_algobw_gbs")),
        busbw_gbps=_float(found.get(f"{kind}_busbw_gbs")),
        algorithm=_upper(found.get(f"{kind}_algo")),
        protocol=_upper(found.get(f"{kind}_proto")),
        start_local_ns=start,
        end_local_ns=end,
    )


def _times(trace: Mapping[str, object]) -> tuple[int | None, int | None]:
    """Return when the first of its channels began and the last ended, ns since the epoch."""
    kernels = trace.get("kernel_events")
    channels = [_mapping(one) for one in kernels] if isinstance(kernels, list) else []
    starts = [_int(channel.get("kernel_start_ts")) for channel in channels]
    ends = [_int(channel.get("kernel_stop_ts")) for channel in channels]
    known = [us for us in (*starts, *ends) if us is not None and 0 < us < _MOST_US]
    if not channels or len(known) < 2 * len(channels):  # 0: nobody noticed
        return None, None
    return min(known) * 1000, max(known) * 1000


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _int(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < _MOST else None


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _upper(value: object) -> str | None:
    text = _text(value)
    return None if text is None else text.upper()
