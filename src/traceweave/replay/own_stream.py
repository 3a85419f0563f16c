"""Collectives that share a stream with compute, on a stream of their own."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import FREE, Edge, Edges, Nodes, Sort

_TENSOR_PARALLEL = "SELECT group_id FROM groups WHERE role = 'tp'"

_GATHERS = ("all_gather", "broadcast")
"""Their input is no result of the compute before, as parameters are, and what follows needs theirs
at once."""
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce")
"""The optimizer needs their results."""


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
    groups = np.append(graph.instances["group_id"], -1)[graph.nodes.instance]
    first = _first_of_chain(nodes)
    moved = _moved(graph, chosen & ~np.isin(groups, tensor), first)
    if not np.any(moved):
        return None
    op = _ops(graph)
    gather, reduction = moved & np.isin(op, _GATHERS), moved & np.isin(op, _REDUCTIONS)
    begins = moved & (nodes.sort != Sort.TRANSFER)
    ends = moved & (nodes.sort != Sort.ARRIVAL)
    call_before, gather_before = _before(ends, first), _before(ends & gather, first)
    kept_before = _before(~moved, first)

    behind = np.flatnonzero(~moved & np.append(False, moved[:-1]) & nodes.follows)
    after_call = np.flatnonzero(begins & nodes.follows)
    sends = after_call[~gather[after_call]]
    lag = nodes.lag.astype(np.int64)
    optimizes = nodes.sort == Sort.COMPUTE
    optimizes &= np.isin(nodes.class_, _numbers(graph.names.classes, "optimizer"))
    steps = np.flatnonzero(optimizes)
    host = edges.where(edges.kind == Edge.HOST_WAIT)
    tied = Edges.joined(
        _tied(kept_before, behind, lag),
        _tied(gather_before, behind, np.zeros_like(lag)),
        _tied(call_before, after_call, np.zeros_like(lag)),
        _tied(kept_before, sends, lag),
        _tied(_before(ends & reduction, first), steps, np.zeros_like(lag)),
        # what the host waited for is done
        Edges.of(call_before[host.source], host.target, host.lag, Edge.HOST_WAIT).where(
            call_before[host.source] >= 0
        ),
    )
    free = np.concatenate([behind, after_call])
    lag[free] = FREE
    return nodes.with_(lag=lag), Edges.joined(edges, tied)


def _moved(graph: Graph, chosen: Flags, first: Ints) -> Flags:
    """Return the nodes of the chosen collectives on chains that have compute too."""
    sort = graph.nodes.sort
    computes = np.zeros(len(sort), bool)
    computes[first[np.isin(sort, (Sort.COMPUTE, Sort.MEMORY))]] = True
    found: Flags = (
        chosen & np.isin(sort, (Sort.ARRIVAL, Sort.TRANSFER, Sort.COMMUNICATION)) & computes[first]
    )
    return found


def _ops(graph: Graph) -> Ints:
    """Return the operation of each node's collective; '' of others."""
    ops: Ints = np.append(graph.instances["op"].astype(str), "")[graph.nodes.instance]
    return ops


def _first_of_chain(nodes: Nodes) -> Ints:
    """Return by node the first one of its chain."""
    begins = np.diff(nodes.chain, prepend=-1) != 0
    begins |= np.diff(nodes.rank, prepend=-2) != 0
    return np.maximum.accumulate(np.where(begins, np.arange(len(nodes)), 0))


def _before(which: Flags, first: Ints) -> Ints:
    """Return by node the last of some nodes before it in its chain; -1: none."""
    number = np.arange(len(which))
    last = np.maximum.accumulate(np.where(which, number, -1))
    last = np.append(-1, last[:-1])
    return np.where(last >= first, last, -1)


def _tied(before: Ints, target: Ints, lag: Ints) -> Edges:
    target = target[before[target] >= 0]
    return Edges.of(before[target], target, lag[target], Edge.STREAM_WAIT)


def _numbers(names: tuple[str, ...], name: str) -> list[int]:
    return [number for number, one in enumerate(names) if one == name]
