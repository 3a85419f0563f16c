"""The nodes and edges of the dependency graph, as columns.

A node is a stretch of work: `start` to `start + length`. It begins when all before it allow it, and
after a delay of its own that no edge explains:

    start = max over the edges into it (end of the source + lag) + delay

Nodes of one chain (a stream, a host thread) follow each other in the arrays, so the edge along the
chain needs no column but its lag. A GPU op has at most one edge from the call that launched it,
which counts from the start of the call. All other edges are rows of `Edges`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from traceweave.arrays import Flags, Ints

COMPUTE, MEMORY, COMMUNICATION, ARRIVAL, TRANSFER, CALL, ENTER, EXIT, BARRIER = range(9)
"""Sorts of nodes. A collective's kernel is two: it arrives, and when all have, it transfers; where
its peers are not known it is one, COMMUNICATION. A call that waits is two: it enters, and exits
after what it waits for. A BARRIER belongs to no rank: all members of a collective are there."""

ORDER_AT_ONCE = np.array([2, 2, 2, 2, 4, 0, 1, 5, 3])
"""By sort: what comes first of nodes that start at the same time."""

STREAM_WAIT, HOST_WAIT, HANDOVER, MEMBERS, COMPLETION, CHAIN, LAUNCHED = range(7)
EDGE_KINDS = (
    "wait between streams", "host wait", "handover", "arrival", "collective", "order", "launch",
)  # fmt: skip
"""Names of the kinds of edges."""

FAR = 1 << 60
"""Beyond all times."""


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
        columns = ([getattr(p, f.name) for p in parts] for f in fields(cls))
        return cls(*(np.concatenate([np.empty(0, np.int64), *c]) for c in columns))

    def where(self, kept: Flags | Ints) -> Self:
        """Return some of the edges."""
        return type(self)(*(getattr(self, f.name)[kept] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Nodes:
    """Columns of nodes, chain by chain, each in order."""

    rank: Ints
    """-1 of a BARRIER."""
    chain: Ints
    sort: Ints
    start: Ints
    """Common clock, ns since the graph's origin."""
    length: Ints
    lag: Ints
    """Least distance from the end of the node before it in its chain; -FAR: it has none."""
    delay: Ints
    """Its own; of the first node of all, its start."""
    loading: Ints
    """Part of the delay in which the host waited for data."""
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

    @property
    def end(self) -> Ints:
        """When each is done."""
        return self.start + self.length

    @property
    def follows(self) -> Flags:
        """Whether each follows the one before it in the arrays."""
        return self.lag > -FAR

    def with_(self, **columns: Ints) -> Self:
        """Return the nodes with other columns."""
        return replace(self, **columns)

    def __len__(self) -> int:
        return len(self.start)


def joined(parts: list[Nodes], renumber: bool = False) -> Nodes:
    """Return all nodes of the parts; `renumber` where each part counts its own nodes from 0."""
    columns = {
        f.name: np.concatenate([np.empty(0, np.int64), *(getattr(p, f.name) for p in parts)])
        for f in fields(Nodes)
    }
    if renumber:
        sizes = np.array([len(part) for part in parts])
        shift = np.repeat(np.cumsum(sizes) - sizes, sizes)
        columns["launch"] = np.where(columns["launch"] < 0, -1, columns["launch"] + shift)
    return Nodes(**columns)
