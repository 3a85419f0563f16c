"""How much of exposed communication other compute could have hidden, all work in its order.

A call could have begun when its input was there on all its ranks, and was needed when the first
work that waits for it was ready but for it. Compute of its rank between the two, beside which no
communication ran, could have hidden it, or a part of it. Each moment of that hides one call: that
which is needed first of those whose input is there, which hides most in all (Horn, Naval Research
Logistics Quarterly 1974).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.arrays import Ints
from traceweave.errors import QueryError
from traceweave.replay.graph import Graph, graph_of
from traceweave.replay.lookups import Union, least_behind, positions
from traceweave.replay.nodes import FAR, Kind, Sort
from traceweave.replay.path import critical_path
from traceweave.replay.rank_graph import RankGraph
from traceweave.replay.waits import inputs, waits
from traceweave.store.rows import Columns

_COLUMNS = ("call_id", "slack_ns", "movable_ns", "path_ns")
_SELECTED = ("call_id", "op_id", "last_op_id", "exposed_ns")


def hideable_calls(
    con: duckdb.DuckDBPyConnection,
    values: Mapping[str, object],
    selected: Callable[[], pa.Table],
) -> Columns:
    """Return of each call_id its slack_ns, from when its input was there to when its result was
    needed, movable_ns, how much of its exposed_ns compute between the two could have hidden, and
    path_ns, how much of its instance's transfer is on the critical path: without it the run is no
    more than so much shorter.

    `op_id` is the op of the call, `last_op_id` that of its receive half, if it has one, and
    `exposed_ns` how long it was exposed but for waiting.

    The first two are missing where no work is known to feed the call, or to wait for it. There are
    no rows where the run is not replayed: `operations` are more than the parameter `replay_ops`.
    """
    table = selected()
    nothing = {name: np.empty(0, np.int64) for name in _COLUMNS}
    if not len(table) or table["operations"][0].as_py() > int(str(values["replay_ops"])):
        return nothing
    try:
        graph = graph_of(con)
    except QueryError:
        return nothing
    call_id, op, last_op, exposed = (table[name].to_numpy() for name in _SELECTED)
    nodes = graph.nodes
    begins = np.flatnonzero(np.isin(nodes.sort, (Sort.ARRIVAL, Sort.COMMUNICATION)))
    first, last = (
        np.append(begins, -1)[positions(nodes.op_id[begins], ops)] for ops in (op, last_op)
    )
    last = np.where(nodes.sort[last] == Sort.ARRIVAL, last + 1, last)
    ready, needed = _ready(graph)[first], _needed(graph)[last]
    instance = np.where(first >= 0, nodes.instance[first], -1)
    known = (first >= 0) & (last >= 0) & (ready > -FAR) & (needed < FAR)
    needed = np.maximum(needed, ready)
    movable = np.zeros(len(first), np.int64)
    for part in graph.parts:
        mine = np.flatnonzero(known & (first >= part.nodes.start) & (first < part.nodes.stop))
        if len(mine):
            release, deadline = _free(graph, part, np.stack([ready[mine], needed[mine]]))
            movable[mine] = served(release, deadline, exposed[mine])
    return {
        "call_id": call_id,
        "slack_ns": np.ma.masked_array(needed - ready, ~known),
        "movable_ns": np.ma.masked_array(movable, ~known),
        "path_ns": np.ma.masked_array(_on_path(graph)[instance], instance < 0),
    }


def served(release: Ints, deadline: Ints, amount: Ints) -> Ints:
    """Return how much of each amount is done between its release and its deadline, where one thing
    is done at a time and as much as possible in all."""
    left, found = amount.tolist(), np.zeros(len(amount), np.int64)
    begins, until = release.tolist(), deadline.tolist()
    order = np.argsort(release, kind="stable").tolist()
    waiting: list[tuple[int, int]] = []
    now, place = 0, 0
    while place < len(order) or waiting:
        if not waiting:
            now = max(now, begins[order[place]])
        while place < len(order) and begins[order[place]] <= now:
            heapq.heappush(waiting, (until[order[place]], order[place]))
            place += 1
        due, one = waiting[0]
        stop = min(due, now + left[one], begins[order[place]] if place < len(order) else FAR)
        done = max(stop - now, 0)
        found[one] += done
        left[one] -= done
        now += done
        if now >= due or not left[one]:
            heapq.heappop(waiting)
    return found


def _on_path(graph: Graph) -> Ints:
    """Return by instance how much of the critical path is its transfer; last, of no instance."""
    path = critical_path(graph, graph.nodes, graph.edges)
    moves = path.kind == Kind.TRANSFERRING
    count = len(graph.instances["number"]) + 1
    of = graph.nodes.instance[path.node[moves]] % count
    return np.bincount(of, path.length[moves], minlength=count).astype(np.int64)


def _ready(graph: Graph) -> Ints:
    """Return by node of a call when its input was there, on all its ranks; -FAR: not known."""
    there, known = inputs(graph)
    ready = np.where(known, there, -FAR)
    of = np.concatenate([part.came for part in graph.parts])
    instance = graph.nodes.instance[of]
    latest = np.full(len(graph.instances["number"]), -FAR)
    np.maximum.at(latest, instance, ready[of])
    latest[instance[~known[of]]] = -FAR
    ready[of] = latest[instance]
    return ready


def _needed(graph: Graph) -> Ints:
    """Return by node of a call when what waits for it, or for what is behind it on its stream, was
    ready but for that; FAR: not known."""
    call, _, since = waits(graph)
    needed: Ints = np.full(len(graph.nodes), FAR)
    np.minimum.at(needed, call, np.where(since > -FAR, since, FAR))
    if graph.has_gpu:  # messages of gloo do not follow each other on a thread
        # it may be needed sooner than that by who waits for it itself since nobody knows when
        unknown = call[needed[call] == FAR]
        needed = least_behind(needed, graph.nodes.rank, graph.nodes.chain)
        needed[unknown] = FAR
    return needed


def _free(graph: Graph, part: RankGraph, at: Ints) -> Ints:
    """Return how much compute a rank ran up to each moment beside which no communication did."""
    nodes, end = graph.nodes, graph.nodes.end
    of = np.arange(part.nodes.start, part.nodes.stop)
    computes, alone = (of[nodes.sort[of] == sort] for sort in (Sort.COMPUTE, Sort.COMMUNICATION))
    calling = nodes.start[np.append(alone, part.came)], end[np.append(alone, part.arrival + 1)]
    busy = np.append(nodes.start[computes], calling[0]), np.append(end[computes], calling[1])
    since = np.full(at.shape, int(nodes.start[of].min()))
    free: Ints = Union(*busy).covered(since, at) - Union(*calling).covered(since, at)
    return free
