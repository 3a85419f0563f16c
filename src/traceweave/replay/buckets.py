"""Gradients in other buckets: all-reduces that are merged, or divided, up to a size.

A merged bucket is there when the last of its parts is, and moves what they usually move with one
latency: parts that ran at once moved it together, and what single ones took longer it takes once.
A divided one begins as soon as its first part is there, where gradients come evenly between the
bucket before it, or the begin of the backward pass, and its own moment, and where that has been
transferred: the last of n parts is done n latencies and a whole transfer after the first begins,
but no sooner than one part after the bucket was there.

The host has less to do for fewer buckets: what asked for those that are gone does not. Where it
transfers itself, what waited for them is woken once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.medians import group_medians
from traceweave.replay.graph import Graph
from traceweave.replay.host import covered
from traceweave.replay.lookups import positions, stretches
from traceweave.replay.nodes import FAR, Edge, Nodes, Sort
from traceweave.replay.rows import where
from traceweave.replay.waits import asked, inputs, waits

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

_ASKING = """
WITH asked AS (
    SELECT h.rank, h.pid, h.tid, h.name, h.start_ns, h.end_ns
    FROM (SELECT unnest($ops) AS op_id) AS g
    JOIN collectives AS k ON g.op_id = CASE WHEN $has_gpu THEN k.gpu_op_id ELSE k.call_id END
    JOIN host_ops AS h ON h.op_id = k.host_op_id
    WHERE h.kind = 'op'
),
around AS (
    SELECT rank, pid, tid, start_ns, end_ns
    FROM host_ops SEMI JOIN asked USING (rank)
    WHERE kind = 'op' AND starts_with(name, 'c10d::')
)
SELECT
    rank, CASE WHEN $has_gpu THEN (hash(pid, tid) >> 1)::BIGINT ELSE tid END AS chain, start_ns,
    start_ns + least(
        end_ns - start_ns, median(end_ns - start_ns) OVER (PARTITION BY rank, name)
    )::BIGINT AS end_ns
FROM (
    SELECT
        a.rank, a.pid, a.tid, a.name,
        CASE WHEN c.end_ns >= a.end_ns THEN c.start_ns ELSE a.start_ns END - $origin AS start_ns,
        CASE WHEN c.end_ns >= a.end_ns THEN c.end_ns ELSE a.end_ns END - $origin AS end_ns
    FROM asked AS a
    ASOF LEFT JOIN around AS c
        ON c.rank = a.rank AND c.pid = a.pid AND c.tid = a.tid AND c.start_ns <= a.start_ns
)
"""
"""What asks for collectives, with the operator around it, since the graph's origin; no longer than
usual: if it took longer, its thread had no core, which others have then."""


@dataclass(frozen=True)
class _Buckets:
    """Buckets of one group, type and step, as recorded, in the order in which they were there."""

    instance: Ints
    there: Ints
    """When the last rank was."""
    done: Ints
    """When the last rank had transferred."""
    before: Ints
    """The first of them that a rank had only after it went on with the result of this one; FAR:
    none."""
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
    the second is there, unless they come one right after the other. Where the host transfers, that
    takes cores from what computes: nothing is gained by dividing.
    """
    length = nodes.length.astype(np.int64)
    rows = np.flatnonzero(chosen & (nodes.sort == Sort.TRANSFER))
    instance = nodes.instance[rows]
    moved = np.maximum(length[rows] - alpha[instance], 0)
    usual = np.minimum(moved, group_medians(moved, graph.instances["bytes"][instance]))
    begins = _backward(graph, con) if graph.has_gpu else None
    merged = [np.empty(0, np.int64)]
    for buckets in _of_steps(graph, rows, alpha):
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
                merged.append(rows[mine & ~end])
            elif buckets.bytes[first] > most:
                parts = int(np.ceil(buckets.bytes[first] / most))
                last_part = one + moved[end] / parts
                all_parts = parts * one + moved[end] - _ahead(buckets, first, parts, begins)
                length[rows[end]] = np.rint(np.maximum(last_part, all_parts))
    gone, delay = np.concatenate(merged), nodes.delay.astype(np.int64)
    if not graph.has_gpu:
        waits = (graph.edges.kind == Edge.HOST_WAIT) & np.isin(graph.edges.source, gone)
        delay[graph.edges.target[waits]] = 0
    return unasked(graph, con, nodes.with_(length=length, delay=delay), gone)


def _of_steps(graph: Graph, rows: Ints, alpha: Floats) -> Iterator[_Buckets]:
    nodes, of = graph.nodes, graph.instances
    instance = nodes.instance[rows]
    there, done, step = (np.full(len(of["number"]), none) for none in (-FAR, -FAR, -1))
    np.maximum.at(there, instance, nodes.start[rows])
    np.maximum.at(done, instance, nodes.ends(rows))
    step[instance] = nodes.step[rows]
    reduced = np.unique(instance)
    reduced = reduced[(of["op"][reduced] == "all_reduce") & (of["bytes"][reduced] > 0)]
    keys = [key[reduced] for key in (step, of["elements"], of["group_id"])]
    order = np.lexsort((there[reduced], *keys))
    reduced = reduced[order]
    place = positions(reduced, instance)
    in_order = np.argsort(place, kind="stable")[np.sum(place < 0) :]
    rows, place = rows[in_order], place[in_order]
    sides = nodes.rank[rows], place, *_uses(graph, rows)
    for begin, end in stretches(*(key[order] for key in keys)):
        own = slice(*np.searchsorted(place, [begin, end]).tolist())
        rank, at, ready, used, asks, then = (column[own] for column in sides)
        those = reduced[begin:end]
        before = _before(rank, at - begin, ready, used, asks, then, alpha[those[at - begin]])
        size = of["bytes"][those]
        yield _Buckets(those, there[those], done[those], before, size, int(step[those[0]]))


def _uses(graph: Graph, rows: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return since when the rank of each bucket had it, when it first used the result, and the
    host's calls that asked for it and for that use: -1 where the use did not wait for most of it,
    since that it ended just then may be chance."""
    nodes, arrival, (call, by, since) = graph.nodes, rows - 1, waits(graph)
    # the rank had it though others were not done on its stream
    ready = np.maximum(inputs(graph)[0], asked(nodes))[arrival]
    ready = np.where(ready > -FAR, ready, nodes.start[arrival])
    first, latest = np.full(len(nodes), -1), np.argsort(-nodes.start[by], kind="stable")
    first[call[latest]] = latest
    first = first[rows]
    user, free = np.append(by, 0)[first], np.append(since, 0)[first]
    used = np.where(first >= 0, nodes.start[user], FAR)
    asks, then = (np.where(nodes.launch[n] >= 0, nodes.launch[n], n) for n in (arrival, user))
    return ready, used, asks, np.where(2 * (used - free) > used - ready, then, -1)


def _before(
    rank: Ints, place: Ints, ready: Ints, used: Ints, asks: Ints, then: Ints, alpha: Floats
) -> Ints:
    """Return the first bucket that a rank had only after it used each, FAR for none; rows are
    sorted by place.

    Those that come one right after the other are used when the last is: what is done between two in
    less than a call costs before its first byte, `alpha` (a division of what was reduced), is done
    as well after all. It is one call, `then`, and the next is asked for (`asks`) in it or right
    after: of two the second may make what is reduced next.
    """
    found = np.full(int(place[-1]) + 1, FAR)
    for one in np.unique(rank).tolist():
        own = np.flatnonzero(rank == one)
        between, user = ready[own[1:]] - used[own[:-1]], then[own[:-1]]
        is_next = (user < 0) | np.isin(asks[own[1:]] - user, (0, 1))
        is_next &= (between >= 0) & (between <= alpha[own[:-1]])
        is_last = np.append(~is_next, True)
        last_used = used[own[is_last]][np.cumsum(is_last) - is_last]
        later = np.searchsorted(np.maximum.accumulate(ready[own]), last_used, side="right")
        later = np.maximum(later, np.arange(len(own)) + 1)
        np.minimum.at(found, place[own], np.append(place[own], FAR)[later])
    return found


def _merged(buckets: _Buckets, most: float) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of those that are one."""
    first, size, before = 0, 0, FAR
    for n, (more, until) in enumerate(
        zip(buckets.bytes.tolist(), buckets.before.tolist(), strict=True)
    ):
        if n > first and (size + more > most or n >= before):
            yield first, n - 1
            first, size, before = n, 0, FAR
        size, before = size + more, min(before, until)
    yield first, len(buckets.instance) - 1


def _ahead(
    buckets: _Buckets, place: int, parts: int, begins: Callable[[int], int | None] | None
) -> float:
    """Return how long before a bucket was there its first part can begin, ns; 0: not known."""
    there = int(buckets.there[place])
    if begins is None:
        return 0
    if place:
        since, free = int(buckets.there[place - 1]), int(buckets.done[place - 1])
    else:
        begin = begins(buckets.step)
        since, free = there if begin is None else begin, -FAR
    return max(there - max(since + (there - since) / parts, free), 0)


def _backward(graph: Graph, con: duckdb.DuckDBPyConnection) -> Callable[[int], int | None]:
    found = dict(con.execute(_BACKWARD).fetchall())
    return lambda step: found[step] - graph.origin if step in found else None


def unasked(graph: Graph, con: duckdb.DuckDBPyConnection, nodes: Nodes, gone: Ints) -> Nodes:
    """Return the nodes without what threads do in operators that ask for what is gone."""
    values = {"origin": graph.origin, "ops": nodes.op_id[gone].tolist(), "has_gpu": graph.has_gpu}
    found = con.execute(_ASKING, values).fetchnumpy()
    rows = {name: np.ma.getdata(column) for name, column in found.items()}
    delay, length = nodes.delay.astype(np.int64), nodes.length.astype(np.int64)
    # a message of gloo lies on the thread that asks for it, and is no part of what that does
    on_host = (nodes.sort >= Sort.CALL) | ((nodes.sort == Sort.COMPUTE) & (not graph.has_gpu))
    for rank in np.unique(rows["rank"]).tolist():
        spent = where(rows, rows["rank"] == rank)
        of = np.flatnonzero((nodes.rank == rank) & on_host)
        chain, start, end = nodes.chain[of], nodes.start[of], nodes.ends(of)
        delay[of] -= covered(spent, chain, start - np.maximum(delay[of], 0), start)
        length[of] -= covered(spent, chain, start, end)
    return nodes.with_(
        delay=delay, length=np.maximum(length, 0), held=np.minimum(nodes.held, np.maximum(delay, 0))
    )
