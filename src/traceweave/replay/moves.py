"""Collectives elsewhere in the graph: beside compute, gathered ahead, on a stream of their own."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.lookups import leads, stretches
from traceweave.replay.nodes import FREE, Edge, Edges, Nodes, Sort
from traceweave.replay.waits import waits

_TENSOR_PARALLEL = "SELECT group_id FROM groups WHERE role = 'tp'"

_GATHERS = ("all_gather", "broadcast")
"""Their input is no result of the compute before, as parameters are, and what follows needs theirs
at once."""
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
"""The optimizer needs their results."""


def overlapped(graph: Graph, nodes: Nodes, chosen: Flags) -> Nodes | None:
    """Let collectives arrive as soon as what they wait for on other streams is done; None where
    none is known to wait for any."""
    arrival = np.flatnonzero(chosen & (nodes.sort == Sort.TRANSFER)) - 1
    arrival = arrival[np.isin(arrival, graph.edges.target)]
    return _freed(nodes, arrival, FREE) if len(arrival) else None


def _freed(nodes: Nodes, arrival: Ints, lag: Ints | int) -> Nodes:
    """Return the nodes where some depend on neither launch nor time."""
    lags, launch, delay = (c.astype(np.int64) for c in (nodes.lag, nodes.launch, nodes.delay))
    lags[arrival], launch[arrival], delay[arrival] = lag, -1, 0
    return nodes.with_(lag=lags, launch=launch, delay=delay)


def prefetched(
    graph: Graph, nodes: Nodes, edges: Edges, chosen: Flags, ahead: int
) -> tuple[Nodes, Edges] | None:
    """Return the graph in which a chosen gather waits for no launch and no compute but the unit
    `ahead` gathers before it to begin; None where no compute is known to wait for a gather.

    The unit of a gather begins where the work that waits for it does. Gathers of a rank and group
    still follow each other, and the first ones of the recording stay where they are.
    """
    transfer = np.flatnonzero(chosen & (graph.nodes.sort == Sort.TRANSFER))
    group = graph.instances["group_id"][nodes.instance[transfer]]
    keys = (nodes.rank[transfer], nodes.step[transfer], group)
    order = np.lexsort((graph.nodes.start[transfer], *keys))
    gathers, unit = transfer[order], _units(graph, transfer)
    # of the gathers of each rank, group and step in their order
    freed, waits = [], []
    for begin, end in stretches(*(key[order] for key in keys)):
        freed.append(gathers[begin + ahead : end])
        waits.append(unit[gathers[begin : max(end - ahead, begin)]])
    after, before = np.concatenate([*freed, []]), np.concatenate([*waits, []])
    arrival, waited = after[before >= 0].astype(np.int64) - 1, before[before >= 0].astype(np.int64)
    if not len(arrival):
        return None
    kept = edges.where(~(np.isin(edges.target, arrival) & (edges.kind == Edge.STREAM_WAIT)))
    if graph.has_gpu:
        # what the unit's first work follows is done when the unit begins
        begun = Edges.of(waited - 1, arrival, 0 * arrival, Edge.STREAM_WAIT)
    else:
        # the thread that computes asks for it, when the unit's own gather is there
        begun = Edges.of(waited, arrival, -nodes.length[waited].astype(np.int64), Edge.HOST_WAIT)
    lag = np.where(nodes.lag[arrival] > FREE, 0, FREE)
    return _freed(nodes, arrival, lag), Edges.joined(kept, begun)


def _units(graph: Graph, transfer: Ints) -> Ints:
    """Return by node the first work on another stream, without a GPU on another thread, that waits
    for it and follows something."""
    nodes, (call, by, _) = graph.nodes, waits(graph)
    works = np.isin(call, transfer) & nodes.follows[by] & (nodes.sort[by] != Sort.EXIT)
    works &= nodes.chain[call] != nodes.chain[by]
    call, by = call[works], by[works]
    unit = np.full(len(nodes), -1)
    order = np.argsort(-nodes.start[by], kind="stable")
    unit[call[order]] = by[order]
    return unit


def on_own_streams(
    con: duckdb.DuckDBPyConnection, graph: Graph, nodes: Nodes, edges: Edges, chosen: Flags
) -> tuple[Nodes, Edges] | None:
    """Return the graph in which the chosen collectives follow each other on a stream of their own;
    None where none of them shares its stream with compute.

    Order on the stream alone is gone. A collective still comes after the compute before it, whose
    result it may send, but for gathers; and what needs it is kept as far as it is known: what waits
    for it by an event or a synchronizing call, the optimizer behind a reduction, and what follows a
    gather. Collectives of tensor parallelism stay: the next layer computes on their result.
    """
    tensor = [group for (group,) in con.execute(_TENSOR_PARALLEL).fetchall()]
    group = np.append(graph.instances["group_id"], -1)[nodes.instance]
    op = np.append(graph.instances["op"].astype(str), "")[nodes.instance]
    chain = np.cumsum(leads(nodes.rank, nodes.chain)) - 1
    computes = np.zeros(len(chain), bool)
    computes[chain[np.isin(nodes.sort, (Sort.COMPUTE, Sort.MEMORY))]] = True
    moved = chosen & ~np.isin(group, tensor) & computes[chain]
    moved &= np.isin(nodes.sort, (Sort.ARRIVAL, Sort.TRANSFER, Sort.COMMUNICATION))
    if not np.any(moved):
        return None
    gather, reduction = moved & np.isin(op, _GATHERS), moved & np.isin(op, _REDUCTIONS)
    begins = moved & (nodes.sort != Sort.TRANSFER)
    ends = moved & (nodes.sort != Sort.ARRIVAL)
    call_before, gather_before = _before(ends, chain), _before(ends & gather, chain)
    kept_before, reduced_before = _before(~moved, chain), _before(ends & reduction, chain)

    behind = np.flatnonzero(~moved & np.append(False, moved[:-1]) & nodes.follows)
    after_call = np.flatnonzero(begins & nodes.follows)
    sends = after_call[~gather[after_call]]
    optimizer = [n for n, one in enumerate(graph.names.classes) if one == "optimizer"]
    steps = np.flatnonzero((nodes.sort == Sort.COMPUTE) & np.isin(nodes.class_, optimizer))
    lag = nodes.lag.astype(np.int64)
    none = np.zeros_like(lag)
    host = edges.where((edges.kind == Edge.HOST_WAIT) & (call_before[edges.source] >= 0))
    tied = Edges.joined(
        _tied(kept_before, behind, lag),
        _tied(gather_before, behind, none),
        _tied(call_before, after_call, none),
        _tied(kept_before, sends, lag),
        _tied(reduced_before, steps, none),
        # what the host waited for is done
        Edges.of(call_before[host.source], host.target, host.lag, Edge.HOST_WAIT),
    )
    lag[np.append(behind, after_call)] = FREE
    return nodes.with_(lag=lag), Edges.joined(edges, tied)


def _before(which: Flags, chain: Ints) -> Ints:
    """Return by node the last of some nodes before it in its chain; -1: none."""
    last = np.maximum.accumulate(np.where(which, np.arange(len(which)), -1))
    last = np.append(-1, last[:-1])
    return np.where((last >= 0) & (chain[last] == chain), last, -1)


def _tied(before: Ints, target: Ints, lag: Ints) -> Edges:
    target = target[before[target] >= 0]
    return Edges.of(before[target], target, lag[target], Edge.STREAM_WAIT)
