"""Gradients in other buckets: all-reduces that are merged, or divided, up to a size.

A merged bucket is there when the last of its parts is, and moves what they moved with one latency.
A divided one begins as soon as its first part is there, where gradients come evenly between the
bucket before it, or the begin of the backward pass, and its own moment, and where that has been
transferred: the last of n parts is done n latencies and a whole transfer after the first begins,
but no sooner than one part after the bucket was there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import BARRIER, FAR, TRANSFER

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
    there: Ints
    """When the last rank was."""
    done: Ints
    """When the last rank had transferred."""
    used: Ints
    """When something that waited for it went on."""
    bytes: Ints
    step: int


def rebucketed(
    graph: Graph, con: duckdb.DuckDBPyConnection, length: Ints, chosen: Flags, most: float,
    alpha: Floats,
) -> Ints:  # fmt: skip
    """Return how long transfers take, ns, where the chosen all-reduces are buckets of `most` bytes.

    `alpha` is the latency of each instance. Two are not merged where the first is used before the
    second is there. Where the host transfers, that takes cores from what computes: nothing is
    gained by dividing.
    """
    nodes = graph.nodes
    new = length.astype(np.int64)
    rows = np.flatnonzero(chosen & (nodes.sort == TRANSFER))
    moved = np.maximum(length[rows] - alpha[nodes.instance[rows]], 0)
    begins = _backward(graph, con) if graph.has_gpu else None
    for buckets in _of_steps(graph, rows):
        for first, last in _merged(buckets, most):
            mine = np.isin(nodes.instance[rows], buckets.instance[first : last + 1])
            end = mine & (nodes.instance[rows] == buckets.instance[last])
            if last > first:
                whole = np.bincount(nodes.rank[rows[mine]], moved[mine], nodes.rank.max() + 1)
                new[rows[mine]] = 0
                one = alpha[buckets.instance[last]]
                new[rows[end]] = np.rint(one + whole[nodes.rank[rows[end]]])
            elif buckets.bytes[first] > most:
                parts = int(np.ceil(buckets.bytes[first] / most))
                one = alpha[buckets.instance[first]]
                last_part = one + moved[end] / parts
                all_parts = parts * one + moved[end] - _ahead(buckets, first, parts, begins)
                new[rows[end]] = np.rint(np.maximum(last_part, all_parts))
    return new


def _of_steps(graph: Graph, rows: Ints) -> Iterator[_Buckets]:
    nodes, of = graph.nodes, graph.instances
    there = np.full(len(of["number"]), -FAR)
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
            at = there[one], done[one], used[one]
            yield _Buckets(one, *at, of["bytes"][one], int(step[one[0]]))


def _merged(buckets: _Buckets, most: float) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of those that are one."""
    first, size, used = 0, 0, FAR
    for n, (there, until, more) in enumerate(
        zip(buckets.there.tolist(), buckets.used.tolist(), buckets.bytes.tolist(), strict=True)
    ):
        if n > first and (size + more > most or used < there):
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
