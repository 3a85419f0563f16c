"""Who waits for what a collective brings, since when, and since when what it takes was there.

Work waits for a call where an edge says so, on another stream or on the host, and where it is next
on the stream of the call. Room in a queue is no result. What a call takes is there when what it
waits for on other streams is done, or, without a GPU, when the host asked; and the work before it
on its own stream, which it may send.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import FAR, Edge, Nodes, Sort

_OF_CALLS = (Sort.ARRIVAL, Sort.TRANSFER, Sort.COMMUNICATION)
_WORK = (Sort.COMPUTE, Sort.MEMORY)


class Waits(NamedTuple):
    """Pairs of nodes."""

    call: Ints
    """Which ends the call,"""
    by: Ints
    """and which begins no sooner;"""
    since: Ints
    """when that was ready but for calls, -FAR: not known."""


def waits(graph: Graph) -> Waits:
    """Return who waits for calls."""
    nodes, edges, end = graph.nodes, graph.edges, graph.nodes.end
    is_call, is_work = (np.isin(nodes.sort, of) for of in (_OF_CALLS, _WORK))
    told = edges.where(np.isin(edges.kind, (Edge.STREAM_WAIT, Edge.HOST_WAIT)))
    behind = np.flatnonzero(nodes.follows & is_work)
    call, by = np.append(told.source, behind - 1), np.append(told.target, behind)
    call, by = call[is_call[call]], by[is_call[call]]
    since, other = asked(nodes), told.where(~is_call[told.source])
    np.maximum.at(since, other.target, end[other.source] + other.lag)
    after = np.flatnonzero(nodes.follows[1:] & ~is_call[:-1]) + 1
    since[after] = np.maximum(since[after], end[after - 1] + nodes.lag[after])
    return Waits(call, by, since[by])


def asked(nodes: Nodes) -> Ints:
    """Return when each was launched, -FAR: not known."""
    when = nodes.start[nodes.launch] + nodes.launch_lag
    return np.where(nodes.launch >= 0, when, -FAR)


def inputs(graph: Graph) -> tuple[Ints, Flags]:
    """Return by node of a call when what its rank has for it was there, -FAR: not known; and
    whether that is known beside what is before it on its stream: that may have nothing for it."""
    nodes, edges, end = graph.nodes, graph.edges, graph.nodes.end
    is_call, is_work = (np.isin(nodes.sort, of) for of in (_OF_CALLS, _WORK))
    there = np.full(len(nodes), -FAR) if graph.has_gpu else asked(nodes)
    fed = edges.where((edges.kind == Edge.STREAM_WAIT) & is_call[edges.target])
    np.maximum.at(there, fed.target, end[fed.source] + fed.lag)
    known: Flags = there > -FAR
    behind = np.flatnonzero((nodes.follows & is_call)[1:] & is_work[:-1]) + 1
    there[behind] = np.maximum(there[behind], end[behind - 1])
    return np.minimum(there, nodes.start), known
