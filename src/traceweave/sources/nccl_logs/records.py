"""What NCCL's messages say, by one set of names for all versions (2.10 to 2.30) and RCCL.

Each is read whole or not at all: a pattern ends with something that a cut line lacks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

COUNTED = (b"opCount ", b"Bytes ->", b"- Init ")
"""The words by which messages of calls, of choices and of communicators are known, read or not."""

_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")
"""What numbers stand for in NCCL 2.20 to 2.23, which print no names."""

_DTYPES = (
    ("int8", 1), ("uint8", 1), ("int32", 4), ("uint32", 4), ("int64", 8), ("uint64", 8),
    ("float16", 2), ("float32", 4), ("float64", 8), ("bfloat16", 2), ("float8e4m3", 1),
    ("float8e5m2", 1),
)  # fmt: skip
"""ncclDataType_t by number: name, and bytes of an element."""


@dataclass(frozen=True)
class Begun:
    """A communicator that is made, or is ready."""

    pointer: str
    place: int
    """The rank of the process in the communicator."""
    size: int
    device: int
    parent: str | None
    """Pointer of the communicator that it was split from."""
    split: str | None
    """Which of the parent's children it is, on all ranks alike; None if the log does not say."""
    hash: str | None
    is_ready: bool

    @property
    def member(self) -> tuple[int, int]:
        """Which of how many."""
        return self.place, self.size


Facts = dict[str, Any]
"""What is said of a communicator (of FACTS, by its thread or with the `pointer` that names it), of
the `devices` of a process, or of a communicator (its pointer) that is `gone`.
"""

FACTS = (
    "nodes", "local_ranks", "channels", "nvls_channels", "p2p_channels", "ring_gbps", "paths",
    "network",
)  # fmt: skip
"""Columns of base.nccl_communicators."""


@dataclass(frozen=True)
class Call:
    """A call of the library."""

    op: str
    count: int
    dtype: str
    bytes: int
    """Of `count` elements."""
    pointer: str


@dataclass(frozen=True)
class Choice:
    """What NCCL runs for an operation of some size, by the columns of base.nccl_choices."""

    name: str | None
    bytes: int
    per_rank: bool
    """Whether `bytes` are those of one rank, where an operation has as many from each."""
    algorithm: str
    protocol: str | None
    channels: int | None


Record = Begun | Facts | Call | Choice

_CALL = re.compile(
    rb"(\w{1,40}): opCount [0-9a-f]+ sendbuff \S+ recvbuff \S+ count (\d{1,18}) datatype (\d{1,3})"
    rb" op -?\d+ root -?\d+ comm (0x[0-9a-f]{1,16}) \[nranks=\d+\] stream \S"
)
_CHOICE = re.compile(
    rb"(?:(\w{1,40}): )?(\d{1,18}) Bytes -> Algo (-?\w{1,40}) proto (-?\w{1,40})"
    rb" (?:channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\}|time \d+\.\d{6})"
)
_SYMMETRIC = re.compile(
    rb"(\w{1,40}) \[Symmetric\]: (\d{1,18}) Bytes -> Kernel (\w{1,80}) nchannels (\d{1,4}) nthreads"
)
_COPIED = re.compile(
    rb"(\w{1,40}) \[(Copy Engine|Hierarchical CE)\]: (\d{1,18}) Bytes -> (?:cudaMemcpy|RMA proxy)"
)
_BEGUN = re.compile(
    rb"(?:\[Rank \d+\] )?(?:\w+ )?comm (0x[0-9a-f]{1,16}) rank (\d{1,9}) nranks (\d{1,9})"
    rb" cudaDev (\d{1,4})(?: nvmlDev -?\d+)? busId [0-9a-f]+"
    rb"(?: parent (0x[0-9a-f]{1,16})(?: (?:split|child)Count (\d{1,9}))? color (-?\d{1,10})"
    rb" key -?\d+)?(?: commId 0x([0-9a-f]{1,16}))? ?- Init (START|COMPLETE)"
)
_GONE = re.compile(rb"comm (0x[0-9a-f]{1,16}) .{0,200}- (?:Destroy|Abort) COMPLETE")
_NODES = re.compile(
    rb"comm (0x[0-9a-f]{1,16}) rank \d+ nRanks \d+ nNodes (\d{1,9}) localRanks (\d{1,9}) localRank "
)
_CHANNELS = re.compile(
    rb"(\d{1,4}) coll channels, (?:\d+ collnet channels, )?(?:(\d{1,4}) nvls channels, )?"
    rb"(\d{1,4}) p2p channels, \d+ p2p channels per peer"
)
_RINGS = re.compile(
    rb"Pattern 4, crossNic \d+, nChannels (\d{1,4}), (?:bw|speed) (\d{1,6}\.\d+)/(\d{1,6}\.\d+),"
    rb" type (\w{1,8})/(\w{1,8}), sameChannels \d"
)
"""Pattern 4 is the ring (NCCL_TOPO_PATTERN_RING in graph.h of NCCL)."""
_NETWORK = re.compile(rb"Using network ([\w .:/+-]{1,80})")
_DEVICES = re.compile(rb"NET/\w+ ?: Using ?(\[\d+\].{1,900})")
_DEVICE = re.compile(rb"\[\d+\]([\w.+-]{1,80})")


def read(text: bytes) -> Record | None:
    """Return what a message says; None if it is of no kind that is read, or damaged."""
    for words, pattern, made in _KINDS:
        if words in text:
            match = pattern.match(text)
            if match is not None and (record := made(match)) is not None:
                return record
    return None


def count(text: bytes) -> int:
    """Return how many messages of the kinds that are counted begin in a text."""
    return sum(map(text.count, COUNTED))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii", "replace")


def _call(match: re.Match[bytes]) -> Call | None:
    op, elements, dtype, pointer = (m.decode("ascii", "replace") for m in match.groups())
    if int(dtype) >= len(_DTYPES) or int(elements) > 2**60:
        return None
    name, size = _DTYPES[int(dtype)]
    return Call(op, int(elements), name, int(elements) * size, pointer)


def _choice(match: re.Match[bytes]) -> Choice:
    op, size, algorithm, protocol, low, high = match.groups()
    return Choice(
        name=_text(op),
        bytes=int(size),
        per_rank=low is not None,
        algorithm=_name(algorithm, _ALGORITHMS),
        protocol=_name(protocol, _PROTOCOLS),
        channels=None if low is None else int(high) - int(low) + 1,
    )


def _name(value: bytes, names: tuple[str, ...]) -> str:
    text = value.decode("ascii", "replace")
    return names[int(text)] if text.isdecimal() and int(text) < len(names) else text


def _symmetric(match: re.Match[bytes]) -> Choice:
    op, size, kernel, channels = match.groups()
    return Choice(_text(op), int(size), True, f"SYMMETRIC {_text(kernel)}", None, int(channels))


def _copied(match: re.Match[bytes]) -> Choice:
    op, engine, size = match.groups()
    name = "COPY_ENGINE" if engine == b"Copy Engine" else "HIERARCHICAL_COPY_ENGINE"
    return Choice(_text(op), int(size), True, name, None, None)


def _begun(match: re.Match[bytes]) -> Begun:
    pointer, place, size, device, parent, number, color, hash_, what = match.groups()
    split = None if number is None else f"split {int(number)} color {int(color)}"
    return Begun(
        pointer=str(_text(pointer)),
        place=int(place),
        size=int(size),
        device=int(device),
        parent=_text(parent),
        split=split,
        # that of a split is not its own in all versions
        hash=None if hash_ is None or parent is not None else f"0x{int(hash_, 16):x}",
        is_ready=what == b"COMPLETE",
    )


def _channels(match: re.Match[bytes]) -> Facts:
    collective, nvls, p2p = match.groups()
    found = {"channels": collective, "nvls_channels": nvls, "p2p_channels": p2p}
    return {name: int(value) for name, value in found.items() if value is not None}


def _rings(match: re.Match[bytes]) -> Facts:
    """The second figures are those to the network; in a node they repeat the first."""
    rings, inside, outside, path, way_out = match.groups()
    slower = min(float(inside), float(outside))
    return {"ring_gbps": int(rings) * slower, "paths": f"{_text(path)}/{_text(way_out)}"}


def _devices(match: re.Match[bytes]) -> Facts:
    return {"devices": ",".join(m.decode("ascii", "replace") for m in _DEVICE.findall(match[1]))}


def _nodes(match: re.Match[bytes]) -> Facts:
    return {"pointer": _text(match[1]), "nodes": int(match[2]), "local_ranks": int(match[3])}


_KINDS: tuple[tuple[bytes, re.Pattern[bytes], Callable[[re.Match[bytes]], Record | None]], ...] = (
    (b": opCount ", _CALL, _call),
    (b" Bytes -> Algo ", _CHOICE, _choice),
    (b"[Symmetric]: ", _SYMMETRIC, _symmetric),
    (b" Bytes -> ", _COPIED, _copied),
    (b"- Init ", _BEGUN, _begun),
    (b" COMPLETE", _GONE, lambda m: {"gone": _text(m[1])}),
    (b" nNodes ", _NODES, _nodes),
    (b" coll channels", _CHANNELS, _channels),
    (b"Pattern 4, ", _RINGS, _rings),
    (b"Using network", _NETWORK, lambda m: {"network": str(_text(m[1])).strip()}),
    (b" Using", _DEVICES, _devices),
)
"""Words that are quickly looked for, the pattern of the whole, and what it says."""
