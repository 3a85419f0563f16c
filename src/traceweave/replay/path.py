"""The critical path: what the end of the run waited for, back to its beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import FAR, FREE, Edges, Kind, Nodes, Sort

_OF_LENGTH = np.full(Sort.BARRIER + 1, -1)
"""By sort: what the length of a node is spent on; -1: it has none."""
_OF_LENGTH[Sort.COMPUTE], _OF_LENGTH[Sort.MEMORY] = Kind.COMPUTING, Kind.COPYING
_OF_LENGTH[[Sort.COMMUNICATION, Sort.TRANSFER]] = Kind.TRANSFERRING
_OF_LENGTH[[Sort.CALL, Sort.EXIT]] = Kind.LAUNCHING, Kind.SYNCING


@dataclass(frozen=True)
class Path:
    """Pieces of time that follow each other without a hole, from the first to the last, but for the
    time that a device which had run nothing yet let its first op wait."""

    node: Ints
    """The node that each piece belongs to."""
    kind: Ints
    begin: Ints
    length: Ints
    changes: Ints
    """Nodes that the path enters from another rank, in order of time,"""
    left: Ints
    """and those it comes from there."""


def of_length(nodes: Nodes, chosen: Ints | slice) -> Ints:
    """Return what the lengths of some nodes are spent on."""
    by = nodes.call_by[chosen].astype(np.int64)
    return np.where(by >= 0, Kind.HELD + by, _OF_LENGTH[nodes.sort[chosen]])


def time_of(graph: Graph, column: str) -> Ints:
    """Return what a column of nodes is time of, so that scenarios can change it; -1: of nothing.

    What launching is to one node, the loader or the allocator is to another. Without a GPU the time
    between operators is the host's.
    """
    nodes, sort = graph.nodes, graph.nodes.sort
    if column == "length":
        return of_length(nodes, slice(None))
    if column == "held":
        return np.where(nodes.held_by >= 0, Kind.HELD + nodes.held_by.astype(np.int64), -1)
    if column == "launch_lag":
        by = nodes.call_by[nodes.launch].astype(np.int64)
        return np.where(nodes.launch >= 0, np.where(by >= 0, Kind.HELD + by, Kind.LAUNCHING), -1)
    if not graph.has_gpu:
        return np.where(np.isin(sort, (Sort.COMPUTE, Sort.CALL)), Kind.LAUNCHING, -1)
    delayed = np.where(sort <= Sort.ARRIVAL, Kind.DELAYED, -1)
    return np.where(np.isin(sort, (Sort.CALL, Sort.ENTER)), Kind.LAUNCHING, delayed)


def spent(graph: Graph, node: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yield what nodes spend their own time on: nodes, the kind of that time, and how long, ns.

    A delay of the device is nobody's own time, nor is waiting for members.
    """
    nodes = graph.nodes
    works = node[(nodes.sort[node] != Sort.BARRIER) & (nodes.sort[node] != Sort.ARRIVAL)]
    yield works, of_length(nodes, works), nodes.length[works]
    host = node[_is_on_host(graph, nodes.sort[node]) & (nodes.sort[node] != Sort.BARRIER)]
    # that of what follows nothing is its date
    host = host[nodes.depends(host)]
    held = nodes.held[host].astype(np.int64)
    by = nodes.held_by[host]
    yield host[by >= 0], Kind.HELD + by[by >= 0].astype(np.int64), held[by >= 0]
    yield host, np.full(len(host), Kind.LAUNCHING), np.maximum(nodes.delay[host] - held, 0)


def _is_on_host(graph: Graph, sort: Ints) -> Flags:
    found: Flags = np.isin(sort, (Sort.CALL, Sort.ENTER, Sort.EXIT)) | (not graph.has_gpu)
    return found


def critical_path(graph: Graph, nodes: Nodes, edges: Edges) -> Path:
    """Return the path through the nodes of a graph, as they were measured or are replayed."""
    latest, last, first = -FAR, -1, FAR
    # what the host does after the op that ends last, such as ending the recording, is not what
    # steps wait for; in blocks: of all nodes at once these are gigabytes
    for block in nodes.blocks():
        ran, starts = nodes.sort[block] < Sort.CALL, nodes.start[block]
        ends = np.where(ran, starts + nodes.length[block], -FAR)
        place = int(ends.argmax())
        if ends[place] > latest:
            latest, last = int(ends[place]), block.start + place
        first = min(first, int(np.where(ran, starts, FAR).min()))
    way, since, left = _walk(nodes, edges, last)
    path = _pieces(graph, nodes, way, left, since)
    # what the device did before it ran anything was launched before the recording began
    before = np.where(path.kind == Kind.DELAYED, np.maximum(first - path.begin, 0), 0)
    cut = np.minimum(before, np.maximum(path.length, 0))
    kept = (cut < path.length) | (cut == 0)  # where clocks let the path go back, length is negative
    begin, length = (path.begin + cut)[kept], (path.length - cut)[kept]
    return replace(path, node=path.node[kept], kind=path.kind[kept], begin=begin, length=length)


def _walk(nodes: Nodes, edges: Edges, last: int) -> tuple[Ints, Ints, Flags]:
    """Return the way back from a node over what each waited for last, in order of time; since when
    each waited, -FAR for the first; and whether the way leaves it at its start, for what it
    launches."""
    into = np.full(len(nodes), -1, np.int32)
    ends = nodes.ends(edges.source)
    # of several edges into a node that which ends last, and of these that from the first node
    order = np.lexsort((-edges.source, ends + edges.lag, edges.target))
    into[edges.target[order]] = order
    start, length, lag = nodes.start.data, nodes.length.data, nodes.lag.data
    launch, launch_lag, latest = nodes.launch.data, nodes.launch_lag.data, into.data
    source, edge_lag = edges.source.data, edges.lag.data
    way, since, left = [last], [], [False]
    node = last
    while True:
        before, at, ready, launched = -1, -FAR, -FAR, False
        if launch[node] >= 0:
            before, launched = launch[node], True
            at = start[before]
            ready = at + launch_lag[node]
        edge = latest[node]
        if edge >= 0:
            end = start[source[edge]] + length[source[edge]]
            if end + edge_lag[edge] >= ready:
                before, at, ready, launched = source[edge], end, end + edge_lag[edge], False
        if lag[node] > FREE:
            end = start[node - 1] + length[node - 1]
            if end + lag[node] >= ready:
                before, at, launched = node - 1, end, False
        since.append(at)
        if before < 0:
            break
        node = before
        way.append(node)
        left.append(launched)
    numbers, dates = np.array(way[::-1], np.int64), np.array(since[::-1], np.int64)
    return numbers, dates, np.array(left[::-1], bool)


def _pieces(graph: Graph, nodes: Nodes, way: Ints, left: Flags, since: Ints) -> Path:
    """Divide the time of each node of the way: before its delay, held up, delay, and its length."""
    sort, start = nodes.sort[way], nodes.start[way]
    on_host = _is_on_host(graph, sort)
    since = np.where(since == -FAR, start, since)
    delay = np.minimum(nodes.delay[way], start - since)
    held = np.minimum(nodes.held[way], np.maximum(delay, 0))
    waited = np.where(on_host, Kind.LAUNCHING, Kind.DELAYED)
    launched = np.append(False, left[:-1])
    kinds = np.stack(
        [
            np.where(launched, Kind.LAUNCHING, waited),
            Kind.HELD + nodes.held_by[way].astype(np.int64),
            waited,
            of_length(nodes, way),
        ],
        axis=1,
    )
    lengths = np.stack(
        [start - since - delay, held, delay - held, np.where(left, 0, nodes.length[way])],
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
        way[change],
        way[origin],
    )
