"""Gradients in other buckets: all-reduces that are merged, or divided, up to a size.

A merged bucket is there when the last of its parts is, and moves what they usually move with one
latency: parts that ran at once moved it together, and what single ones took longer it takes once.
A divided one begins as soon as its first part is there, where gradients come evenly between the
bucket before it, or the begin of the backward pass, and its own moment, and where that has been
transferred: the last of n parts is done n latencies and a whole transfer after the first begins,
but no sooner than one part after the bucket was there.

Where the host transfers, it has less to do for fewer buckets: what called for those that are gone
does not, what waited for them is woken once, and what transfers hold up goes with their time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.medians import group_medians
from traceweave.replay.calling import calling, without_calling
from traceweave.replay.graph import Graph
from traceweave.replay.likeness import places
from traceweave.replay.nodes import BARRIER, COMPUTE, FAR, HOST_WAIT, TRANSFER, Nodes

_BACKWARD = """
SELECT step, max(begin) AS begin FROM (
    SELECT d.rank, d.step, min(d.start_ns) AS begin
    FROM device_ops AS d JOIN (
        SELECT rank, step, min(start_local_ns) AS start_ns FROM host_ops
        WHERE starts_with(name, 'autograd::engine') AND step IS NOT NULL GROUP BY rank, step
    ) AS b USING (rank, step)
    WHERE d.category = 'compute' AND d.launch_start_local_ns >= b.start_ns
    GROUP BY d.rank, d.step
) GROUP BY step
"""
"""When the last rank began the backward pass, by step, common clock."""


@dataclass(frozen=True)
class _Buckets:
    """Buckets of one group and step, as recorded, in the order in which they were there."""

    instance: Ints
    asked: Ints
    """When the last rank had asked for it; of a kernel, when it was there."""
    there: Ints
    """When the last rank was."""
    done: Ints
    """When the last rank had transferred."""
    used: Ints
    """When something that waited for it went on."""
    bytes: Ints
    step: int

    def alone(self, first: int, last: int) -> float:
        """Return which share of the time of some was not that of another one too, 0 to 1."""
        there, done = self.there[first : last + 1], self.done[first : last + 1]
        busy = np.maximum.accumulate(np.r_[there[0], done])[:-1]
        own = np.maximum(done - np.maximum(there, busy), 0).sum()
        return float(own / max(1, (done - there).sum()))


def rebucketed(
    graph: Graph, con: duckdb.DuckDBPyConnection, nodes: Nodes, chosen: Flags, most: float,
    alpha: Floats,
) -> Nodes:  # fmt: skip
    """Return the nodes where the chosen all-reduces are buckets of `most` bytes.

    `alpha` is the latency of each instance, ns. Two are not merged where the first is used before
    the second is there. Where the host transfers, that takes cores from what computes: nothing is
    gained by dividing.
    """
    length = nodes.length.astype(np.int64)
    rows = np.flatnonzero(chosen & (nodes.sort == TRANSFER))
    instance = nodes.instance[rows]
    moved = np.maximum(length[rows] - alpha[instance], 0)
    usual = np.minimum(moved, group_medians(moved, graph.instances["bytes"][instance]))
    begins = _backward(graph, con) if graph.has_gpu else None
    host = None if graph.has_gpu else _Host(graph, con, nodes)
    for buckets in _of_steps(graph, rows):
        for first, last in _merged(buckets, most):
            mine = np.isin(instance, buckets.instance[first : last + 1])
            end = mine & (instance == buckets.instance[last])
            one = alpha[buckets.instance[last]]
            if last > first:
                longer = (moved - usual)[mine].mean()
                whole = np.bincount(nodes.rank[rows[mine]], usual[mine], nodes.rank.max() + 1)
                alone = buckets.alone(first, last)
                length[rows[mine]] = 0
                length[rows[end]] = np.rint(one + longer + alone * whole[nodes.rank[rows[end]]])
                if host:
                    host.merge(rows[mine], rows[end], length)
            elif buckets.bytes[first] > most:
                parts = int(np.ceil(buckets.bytes[first] / most))
                last_part = one + moved[end] / parts
                all_parts = parts * one + moved[end] - _ahead(buckets, first, parts, begins)
                length[rows[end]] = np.rint(np.maximum(last_part, all_parts))
    return nodes.with_(length=length, delay=host.delay if host else nodes.delay)


class _Host:
    """What the host does for its buckets, and what goes with those that are merged."""

    def __init__(self, graph: Graph, con: duckdb.DuckDBPyConnection, nodes: Nodes) -> None:
        self._nodes, self.delay = nodes, nodes.delay.astype(np.int64)
        waits = graph.edges.kind == HOST_WAIT
        self._source, self._target = graph.edges.source[waits], graph.edges.target[waits]
        self._calling = calling(con, nodes)
        self._works = np.flatnonzero((nodes.sort == COMPUTE) & (nodes.step >= 0))
        calls = np.bincount(np.maximum(nodes.launch, 0), self._calling, len(nodes))
        length = (nodes.length - calls)[self._works]
        self._longer = np.maximum(length - group_medians(length, self._same()), 0)

    def _same(self) -> Ints:
        """Return a number for each operator: the same in all steps of its rank."""
        nodes, works = self._nodes, self._works
        rank, name = nodes.rank[works], nodes.name[works]
        place = places(name, rank, nodes.step[works], nodes.start[works])
        same: Ints = np.unique(np.stack([rank, name, place]), axis=1, return_inverse=True)[1]
        return same

    def merge(self, merged: Ints, kept: Ints, length: Ints) -> None:
        """Take from the lengths of operators, and from delays, what the host does for transfers
        that are merged into the kept ones."""
        nodes, works = self._nodes, self._works
        gone = np.setdiff1d(merged, kept)
        self.delay[self._target[np.isin(self._source, gone)]] = 0
        without_calling(length, nodes, self._calling, gone)
        for rank in np.unique(nodes.rank[kept]).tolist():
            own = merged[nodes.rank[merged] == rank]
            begin, end = nodes.start[own - 1].min(), nodes.end[own].max()
            left = length[own].sum() / max(int(nodes.length[own].sum()), 1)
            beside = (nodes.rank[works] == rank) & (nodes.start[works] < end)
            beside &= nodes.end[works] > begin
            longer = self._longer[beside] * max(1 - left, 0)
            length[works[beside]] -= np.rint(longer).astype(np.int64)
        np.maximum(length, 0, out=length)


def _of_steps(graph: Graph, rows: Ints) -> Iterator[_Buckets]:
    nodes, of = graph.nodes, graph.instances
    asked, there = np.full(len(of["number"]), -FAR), np.full(len(of["number"]), -FAR)
    np.maximum.at(asked, nodes.instance[rows], _asked(graph, rows))
    np.maximum.at(there, nodes.instance[rows], nodes.start[rows])
    done, used = np.full(len(there), -FAR), np.full(len(there), FAR)
    np.maximum.at(done, nodes.instance[rows], nodes.end[rows])
    edges = graph.edges
    from_rows = np.isin(edges.source, rows) & (nodes.sort[edges.target] != BARRIER)
    source, target = edges.source[from_rows], edges.target[from_rows]
    np.minimum.at(used, nodes.instance[source], nodes.start[target])
    step = np.full(len(there), -1)
    step[nodes.instance[rows]] = nodes.step[rows]
    instance = np.unique(nodes.instance[rows])
    instance = instance[(of["op"][instance] == "all_reduce") & (of["bytes"][instance] > 0)]
    instance = instance[np.lexsort((there[instance], step[instance], of["group_id"][instance]))]
    where = np.stack([of["group_id"][instance], step[instance]])
    cuts = np.flatnonzero(np.any(where[:, 1:] != where[:, :-1], axis=0)) + 1
    for one in np.split(instance, cuts):
        if len(one):
            at = asked[one], there[one], done[one], used[one]
            yield _Buckets(one, *at, of["bytes"][one], int(step[one[0]]))


def _asked(graph: Graph, rows: Ints) -> Ints:
    """Return when the host asked for each; a thread of gloo takes it up when it has done others."""
    nodes = graph.nodes
    if graph.has_gpu:
        return nodes.start[rows]
    launch = nodes.launch[rows - 1]
    at = nodes.start[launch] + nodes.launch_lag[rows - 1]
    return np.where(launch >= 0, at, nodes.start[rows])


def _merged(buckets: _Buckets, most: float) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of those that are one."""
    first, size, used = 0, 0, FAR
    for n, (asked, until, more) in enumerate(
        zip(buckets.asked.tolist(), buckets.used.tolist(), buckets.bytes.tolist(), strict=True)
    ):
        if n > first and (size + more > most or used < asked):
            yield first, n - 1
            first, size, used = n, 0, FAR
        size, used = size + more, min(used, until)
    yield first, len(buckets.instance) - 1


def _ahead(
    buckets: _Buckets, place: int, parts: int, begins: Callable[[int], int | None] | None
) -> float:
    """Return how long before a bucket was there its first part can begin, ns; 0: not known."""
    there = int(buckets.there[place])
    if place:
        since, free = int(buckets.there[place - 1]), int(buckets.done[place - 1])
    else:
        begin = begins(buckets.step) if begins else None
        since, free = there if begin is None else begin, -FAR
    if begins is None:
        return 0
    return max(there - max(since + (there - since) / parts, free), 0)


def _backward(graph: Graph, con: duckdb.DuckDBPyConnection) -> Callable[[int], int | None]:
    found = dict(con.execute(_BACKWARD).fetchall())
    return lambda step: found[step] - graph.origin if step in found else None
