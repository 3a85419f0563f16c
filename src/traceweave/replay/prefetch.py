"""Parameters that are gathered some units ahead of the one that computes, as FSDP can."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import FREE, Edge, Edges, Nodes, Sort


def prefetched(
    graph: Graph, nodes: Nodes, edges: Edges, chosen: Flags, ahead: int
) -> tuple[Nodes, Edges] | None:
    """Return the graph in which a chosen gather waits for no launch and no compute but the unit
    `ahead` gathers before it to begin; None where no compute is known to wait for a gather.

    The unit of a gather begins where the work that waits for it does. Gathers of a rank and group
    still follow each other, and the first ones of the recording stay where they are.
    """
    transfer = np.flatnonzero(chosen & (graph.nodes.sort == Sort.TRANSFER))
    unit = _units(graph, transfer)
    arrival, begin = [], []
    for gathers in _of_groups(graph, transfer):
        before = unit[gathers[:-ahead]]
        known = before >= 0
        arrival.append(gathers[ahead:][known] - 1)
        begin.append(before[known])
    freed, waits = np.concatenate([*arrival, []]), np.concatenate([*begin, []])
    freed, waits = freed.astype(np.int64), waits.astype(np.int64)
    if not len(freed):
        return None
    lag, launch, delay = (c.astype(np.int64) for c in (nodes.lag, nodes.launch, nodes.delay))
    launch[freed], delay[freed] = -1, 0
    lag[freed] = np.where(lag[freed] > FREE, 0, FREE)
    kept = ~(np.isin(edges.target, freed) & (edges.kind == Edge.STREAM_WAIT))
    if graph.has_gpu:
        # what the unit's first work follows is done when the unit begins
        begun = Edges.of(waits - 1, freed, np.zeros_like(freed), Edge.STREAM_WAIT)
    else:
        # the thread that computes asks for it, when the unit's own gather is there
        begun = Edges.of(waits, freed, -nodes.length[waits].astype(np.int64), Edge.HOST_WAIT)
    return nodes.with_(lag=lag, launch=launch, delay=delay), Edges.joined(edges.where(kept), begun)


def _units(graph: Graph, transfer: Ints) -> Ints:
    """Return by node the first work on another stream, without a GPU on another thread, that waits
    for it and follows something."""
    nodes, edges = graph.nodes, graph.edges
    unit = np.full(len(nodes), -1)
    of_compute = Edge.STREAM_WAIT if graph.has_gpu else Edge.HOST_WAIT
    waits = (edges.kind == of_compute) & np.isin(edges.source, transfer)
    waits &= nodes.follows[edges.target] & (nodes.chain[edges.source] != nodes.chain[edges.target])
    source, target = edges.source[waits], edges.target[waits]
    order = np.argsort(-nodes.start[target], kind="stable")
    unit[source[order]] = target[order]
    return unit


def _of_groups(graph: Graph, transfer: Ints) -> list[Ints]:
    """Return the gathers of each rank, group and step in their order."""
    nodes, of = graph.nodes, graph.instances
    group = of["group_id"][nodes.instance[transfer]]
    keys = np.stack([nodes.rank[transfer], nodes.step[transfer], group])
    order = np.lexsort((nodes.start[transfer], *keys))
    keys = keys[:, order]
    cuts = np.flatnonzero(np.any(keys[:, 1:] != keys[:, :-1], axis=0)) + 1
    return list(np.split(transfer[order], cuts))
