"""The critical path: what the end of the run waited for, back to its beginning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import (
    BARRIER,
    CALL,
    COMMUNICATION,
    COMPUTE,
    ENTER,
    EXIT,
    FAR,
    MEMORY,
    TRANSFER,
    Edges,
    Nodes,
)

COMPUTING, TRANSFERRING, LAUNCHING, LOADING, SYNCING, COPYING, DELAYED = range(7)
KINDS = ("compute", "transfer", "launch", "data_loading", "sync", "copy", "device_delay")
"""What a piece of the path is, and what scenarios call it."""

_OF_LENGTH = {
    COMPUTE: COMPUTING, MEMORY: COPYING, COMMUNICATION: TRANSFERRING, TRANSFER: TRANSFERRING,
    CALL: LAUNCHING, ENTER: LAUNCHING, EXIT: SYNCING,
}  # fmt: skip
_ON_HOST = (CALL, ENTER, EXIT)


@dataclass(frozen=True)
class Path:
    """Pieces of time that follow each other without a hole, from the first to the last."""

    node: Ints
    """The node that each piece belongs to."""
    kind: Ints
    begin: Ints
    length: Ints
    step: Ints
    """Of the node; -1: none."""
    changes: Ints
    """Nodes that the path enters from another rank, in order of time,"""
    left: Ints
    """and those it comes from there."""


def of_length(sort: Ints) -> Ints:
    """Return what the lengths of nodes are, by their sorts."""
    kinds = np.array([_OF_LENGTH.get(s, DELAYED) for s in range(BARRIER + 1)])
    return kinds[sort]


def critical_path(graph: Graph, nodes: Nodes, edges: Edges) -> Path:
    """Return the path through the nodes of a graph, as they were measured or are replayed."""
    before, by_launch, leaving = _before(nodes, edges)
    # what the host does after the last op, such as ending the recording, is not what steps wait for
    last = int(np.argmax(np.where(nodes.sort < CALL, nodes.end, -FAR)))
    way = _walk(before, last)
    # a call that launches the next node is left when it begins
    left = np.append(by_launch[way[1:]], False)
    return _pieces(graph, nodes, way, left, np.append(-FAR, leaving[way[1:]]))


def _before(nodes: Nodes, edges: Edges) -> tuple[Ints, Ints, Ints]:
    """Return of each node the one that it waited for last, or -1; whether that launched it; and
    when the way leaves that one."""
    count, ends = len(nodes), nodes.end
    ready = np.full(count, -FAR)
    leaving = np.full(count, -FAR)
    before = np.full(count, -1)
    by_launch = np.zeros(count, bool)
    launched = np.flatnonzero(nodes.launch >= 0)
    called = nodes.start[nodes.launch[launched]]
    ready[launched] = called + nodes.launch_lag[launched]
    leaving[launched], before[launched], by_launch[launched] = called, nodes.launch[launched], True

    through = ends[edges.source] + edges.lag
    order = np.lexsort((-edges.source, through, edges.target))
    final = order[np.flatnonzero(np.diff(edges.target[order], append=-1))]
    target = edges.target[final]
    better = through[final] >= ready[target]
    final, target = final[better], target[better]
    ready[target], leaving[target] = through[final], ends[edges.source[final]]
    before[target], by_launch[target] = edges.source[final], False

    follows = np.flatnonzero(nodes.follows)
    along = ends[follows - 1] + nodes.lag[follows]
    better = along >= ready[follows]
    follows = follows[better]
    leaving[follows], before[follows], by_launch[follows] = ends[follows - 1], follows - 1, False
    return before, by_launch, leaving


def _walk(before: Ints, last: int) -> Ints:
    way = []
    node = last
    while node >= 0:
        way.append(node)
        node = int(before[node])
    return np.array(way[::-1], np.int64)


def _pieces(graph: Graph, nodes: Nodes, way: Ints, left: Ints, since: Ints) -> Path:
    """Divide the time of each node of the way: before its delay, loading, delay, and its length."""
    sort, start = nodes.sort[way], nodes.start[way]
    on_host = np.isin(sort, _ON_HOST) | (not graph.has_gpu)
    since = np.where(since == -FAR, start, since)
    delay = np.minimum(nodes.delay[way], start - since)
    loading = np.minimum(nodes.loading[way], np.maximum(delay, 0))
    waited = np.where(on_host, LAUNCHING, DELAYED)
    launched = np.append(False, left[:-1])
    kinds = np.stack(
        [
            np.where(launched, LAUNCHING, waited),
            np.full(len(way), LOADING),
            waited,
            of_length(sort),
        ],
        axis=1,
    )
    lengths = np.stack(
        [start - since - delay, loading, delay - loading, np.where(left, 0, nodes.length[way])],
        axis=1,
    )
    begins = since[:, None] + np.cumsum(lengths, axis=1) - lengths
    kept = lengths.ravel() != 0
    rank = nodes.rank[way]
    known = np.flatnonzero(rank >= 0)
    change = known[1:][rank[known][1:] != rank[known][:-1]]
    origin = known[:-1][rank[known][1:] != rank[known][:-1]]
    return Path(
        np.repeat(way, 4)[kept],
        kinds.ravel()[kept],
        begins.ravel()[kept],
        lengths.ravel()[kept],
        np.repeat(nodes.step[way], 4)[kept],
        way[change],
        way[origin],
    )
