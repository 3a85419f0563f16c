"""The steps of a run, each replayed by itself, from work that waits for nothing, without delays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.interrupts import go_on
from traceweave.replay.engine import Lengths, runs_of, times
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import FREE, Edge, Edges, Nodes, Sort


class Steps:
    """The steps of a run, as runs of nodes."""

    def __init__(self, graph: Graph) -> None:
        step = steps_of(graph)
        nodes, edges = apart(graph, step)
        self._nodes, self._runs = nodes, runs_of(nodes, edges)
        first = self._runs.first
        self.rank = positions(graph, nodes.rank[first])
        """Of each run, as a position; -1 of barriers, which take no time."""
        self.ops = np.flatnonzero((step >= 0) & (nodes.sort < Sort.CALL))
        """Nodes whose lengths count."""
        self.length = nodes.length[self.ops]
        """Theirs, as measured."""
        self._run = self._runs.of[self.ops]
        on_device = np.flatnonzero((step[first] >= 0) & (nodes.sort[first] < Sort.CALL))
        self._by_step = on_device[np.argsort(step[first[on_device]], kind="stable")]
        self.steps, self._begins = np.unique(step[first[self._by_step]], return_index=True)

    def takes(self, length: Ints, ops: Ints | slice = slice(None)) -> Ints:
        """Return how long each run takes, if (some of) `ops` take so long, and others nothing."""
        # sums of integers far below 2^53 are exact
        takes = np.bincount(self._run[ops], length, minlength=len(self.rank))
        return takes.astype(np.int64)

    def times(self, takes: Iterable[Ints]) -> Iterator[Floats]:
        """Yield how long each step takes, for every case: how long each run takes."""
        for lengths in takes:
            go_on()
            # what launches a run begins one itself
            _, ends = times(self._nodes, self._runs, Lengths(lengths, lengths))
            # without delays the last op of a run is the one that ends last
            yield np.maximum.reduceat(ends[self._by_step], self._begins).astype(np.float64)


def positions(graph: Graph, rank: Ints) -> Ints:
    """Return the position of each rank, -1 for none."""
    ranks = np.array(graph.ranks)
    place = np.minimum(np.searchsorted(ranks, rank), len(ranks) - 1)
    return np.where(ranks[place] == rank, place, -1)


def steps_of(graph: Graph) -> Ints:
    """Return the step of each node; that of collectives is that of a member."""
    nodes = graph.nodes
    step = nodes.step.astype(np.int64)
    barriers = np.flatnonzero(nodes.sort == Sort.BARRIER)
    latest = np.full(len(graph.instances["number"]), -1)
    arrival = np.flatnonzero(nodes.sort == Sort.ARRIVAL)
    np.maximum.at(latest, nodes.instance[arrival], step[arrival])
    step[barriers] = latest[nodes.instance[barriers]]
    return step


def apart(graph: Graph, step: Ints) -> tuple[Nodes, Edges]:
    """Return the graph without edges between steps, delays, and what the host takes."""
    nodes, edges = graph.nodes, graph.edges
    same = np.append(False, step[1:] == step[:-1]) & nodes.follows
    lag = np.where(same, np.int32(0), np.int32(FREE))
    launch = nodes.launch.copy()
    for block in nodes.blocks():
        launch[block][step[launch[block]] != step[block]] = -1
    kept = edges.where(step[edges.source] == step[edges.target])
    source, target = kept.source, kept.target
    # operators that ask for collectives begin their runs, so that what runs take are sums
    asks = np.unique(launch[launch >= 0]) if not graph.has_gpu else np.empty(0, np.int64)
    asks = asks[same[asks]]
    source, target = np.append(source, asks - 1), np.append(target, asks)
    nothing = np.zeros(len(source), np.int64)
    return nodes.with_(lag=lag, launch=launch), Edges.of(source, target, nothing, Edge.HANDOVER)
