"""The nodes and edges of the dependency graph, as columns.

A node is a stretch of work: `start` to `start + length`. It begins when all before it allow it, and
after a delay of its own that no edge explains:

    start = max over the edges into it (end of the source + lag) + delay

Nodes of one chain (a stream, a host thread) follow each other in the arrays, so the edge along the
chain needs no column but its lag. A GPU op has at most one edge from the call that launched it,
which counts from the start of the call, or, of a call that waits for room in its queue, from when
there is some. All other edges are rows of `Edges`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np

from traceweave.arrays import Flags, Ints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Sort:
    """Sorts of nodes. A collective's kernel is two: it arrives, and when all have, it transfers;
    where its peers are not known it is one, COMMUNICATION. A call that waits is two: it enters, and
    exits after what it waits for. A BARRIER belongs to no rank: all members of a collective are
    there."""

    COMPUTE, MEMORY, COMMUNICATION, ARRIVAL, TRANSFER, CALL, ENTER, EXIT, BARRIER = range(9)


HOLDS = (
    "data_loading", "allocator", "compilation", "module_loading", "graph_capture",
    "profiler_overhead",
)  # fmt: skip
"""What keeps a host thread from launching; a call that waits for the device is a node instead."""

KINDS = ("compute", "transfer", "launch", "sync", "copy", "device_delay", *HOLDS)
"""What time is spent on, as scenarios call it."""


class Kind:
    """Places in KINDS; HELD is the first of HOLDS."""

    COMPUTING, TRANSFERRING, LAUNCHING, SYNCING, COPYING, DELAYED, HELD = range(7)


ORDER_AT_ONCE = np.array([2, 2, 2, 2, 4, 0, 1, 5, 3])
"""By sort: what comes first of nodes that start at the same time."""

EDGE_KINDS = (
    "wait between streams", "host wait", "handover", "arrival", "collective", "full queue",
)  # fmt: skip
"""Names of the kinds of edges."""


class Edge:
    """Places in EDGE_KINDS."""

    STREAM_WAIT, HOST_WAIT, HANDOVER, MEMBERS, COMPLETION, FULL_QUEUE = range(6)


FAR = 1 << 60
"""Beyond all times."""

FREE = -(1 << 31) + 1
"""A lag: there is no node before it in its chain."""

_NOTHING = ("length", "lag", "delay", "held", "launch_lag")
"""Columns of nodes that are 0 where nothing is known; others are -1."""

T = TypeVar("T", bound="DataclassInstance")


def joined(*parts: T) -> T:
    """Return the columns of some parts as one, the same numbers kept."""
    columns = ([getattr(part, f.name) for part in parts] for f in fields(parts[0]))
    return type(parts[0])(*map(np.concatenate, columns))


def part_of(whole: T, which: Flags | Ints) -> T:
    """Return some rows of columns, the same numbers kept."""
    return type(whole)(*(getattr(whole, f.name)[which] for f in fields(whole)))


@dataclass(frozen=True)
class Edges:
    """Edges that follow from neither order nor launch: by node numbers, with least distances."""

    source: Ints
    target: Ints
    lag: Ints
    """From the end of the source to the start of the target, at least."""
    kind: Ints

    @classmethod
    def of(cls, source: Ints, target: Ints, lag: Ints, kind: int) -> Self:
        """Return edges of one kind."""
        return cls(source, target, lag, np.full(len(source), kind))

    @classmethod
    def joined(cls, *parts: Self) -> Self:
        """Return all edges of the parts."""
        return joined(cls(*[np.empty(0, np.int64)] * 4), *parts)

    def where(self, kept: Flags | Ints) -> Self:
        """Return some of the edges."""
        return part_of(self, kept)


@dataclass(frozen=True)
class Nodes:
    """Columns of nodes, rank by rank and chain by chain, each in order.

    Integers are as narrow as their values allow: there may be tens of millions of nodes.
    """

    rank: Ints
    """-1 of a BARRIER."""
    chain: Ints
    sort: Ints
    start: Ints
    """Common clock, ns since the graph's origin."""
    length: Ints
    lag: Ints
    """Least distance from the end of the node before it in its chain; FREE: it has none."""
    delay: Ints
    """Its own; of what depends on nothing, its start."""
    held: Ints
    """Part of the delay in which something kept the host from launching."""
    held_by: Ints
    """What that mostly was: a place in HOLDS, -1 for nothing."""
    call_by: Ints
    """What the call itself is mostly made of, -1 for nothing but calling."""
    launch: Ints
    """The node of the call that launched it, -1 for none."""
    launch_lag: Ints
    """Least distance from the start of that call."""
    step: Ints
    """-1: none."""
    op_id: Ints
    """Of gpu_ops, host_ops or collectives (call_id)."""
    name: Ints
    """Number of the kernel's or the call's name."""
    class_: Ints
    instance: Ints
    """Number of the collective instance, -1 for none."""

    @classmethod
    def of(cls, rank: int, start: Ints, **columns: Ints) -> Self:
        """Return nodes of one rank: no step, call, name or collective is known of them unless it is
        given, and neither delay nor launch."""
        none, nothing = np.full(len(start), -1), np.zeros(len(start), np.int64)
        given: dict[str, Ints] = {
            f.name: nothing if f.name in _NOTHING else none for f in fields(cls)
        }
        rows = np.full(len(start), rank)
        return cls(**{**given, "rank": rows, "start": start, **columns})

    @property
    def end(self) -> Ints:
        """When each is done."""
        return self.start + self.length

    def ends(self, of: Ints | slice | int) -> Ints:
        """When some are done: of a large run this takes less than all ends."""
        return self.start[of] + self.length[of]

    @property
    def follows(self) -> Flags:
        """Whether each follows the one before it in the arrays."""
        return self.lag > FREE

    def depends(self, which: Ints | slice) -> Flags:
        """Whether each of some follows something, so that its delay is no date."""
        return (self.lag[which] > FREE) | (self.launch[which] >= 0)

    def blocks(self) -> Iterator[slice]:
        """Yield where the nodes of each rank are."""
        edges = np.flatnonzero(np.diff(self.rank)) + 1
        for begin, end in pairwise([0, *edges.tolist(), len(self)]):
            yield slice(begin, end)

    def with_(self, **columns: Ints) -> Self:
        """Return the nodes with other columns."""
        return replace(self, **columns)

    def __len__(self) -> int:
        return len(self.start)


_NARROW = {
    "rank": np.int32, "chain": np.int64, "sort": np.int8, "lag": np.int32, "launch": np.int32,
    "held_by": np.int8, "call_by": np.int8, "name": np.int32,
    "class_": np.int16, "instance": np.int32,
}  # fmt: skip
"""Columns that need no 64 bits."""

_RARE = ("delay", "held")
"""Columns that are 0 nearly everywhere: where nothing else is written, they take no memory."""


class Collected:
    """Nodes of one part after the other; there may be tens of millions."""

    def __init__(self, capacity: int) -> None:
        self._columns = {
            f.name: np.zeros(capacity, _NARROW.get(f.name, np.int64)) for f in fields(Nodes)
        }
        self.size = 0

    def add(self, part: Nodes) -> int:
        """Add nodes that count their own from 0, and return the number of the first."""
        first, self.size = self.size, self.size + len(part)
        where = slice(first, self.size)
        for name, column in self._columns.items():
            values = getattr(part, name)
            if name == "launch":
                values = np.where(values < 0, -1, values + first)
            if name in _RARE:
                some = np.flatnonzero(values)
                column[first + some] = values[some]
            else:
                column[where] = values
        return first

    def nodes(self) -> Nodes:
        """Return all of them."""
        return Nodes(**{name: column[: self.size] for name, column in self._columns.items()})
