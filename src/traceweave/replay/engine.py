"""Replay: when every node starts, from lengths, delays and edges alone.

Most nodes have one or two edges into them, along the chain and from the launch. Stretches of such
nodes are one *run* each, which depends on the rest by two numbers only: when it may begin, and when
the host's run that launches its ops began. So the numbers of a run are sums and running maxima over
arrays, and only runs are gone through one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceweave.arrays import Ints
from traceweave.errors import QueryError
from traceweave.interrupts import go_on
from traceweave.replay.nodes import FAR, FREE, ORDER_AT_ONCE, Edges, Nodes

NEVER = -(1 << 40)
"""Before everything that a run can hold (18 minutes), as a distance."""


@dataclass(frozen=True)
class Runs:
    """Stretches of chains, and how their nodes depend on what a run depends on."""

    first: Ints
    """First node of each."""
    of: Ints
    """Run of each node."""
    launched_by: Ints
    """The host's run that launches its nodes, -1 for none."""
    order: Ints
    """Runs so that each comes after all that it depends on."""
    edges: Edges
    """By target, between runs: from the end of the last node to the start of the first."""
    edges_of: Ints
    """Where those of each run begin, and the end."""


def runs_of(nodes: Nodes, edges: Edges) -> Runs:
    """Divide the nodes into runs. Raises QueryError where the edges go in a circle."""
    count = len(nodes)
    begins = ~nodes.follows
    begins[edges.target] = True
    after = edges.source + 1
    begins[after[after < count]] = True
    # what the host launches in one of its runs and in the next are two
    host_run = np.cumsum(begins, dtype=np.int32)
    for block in nodes.blocks():
        launch = nodes.launch[block]
        launcher = np.where(launch >= 0, host_run[launch], 0)
        begins[block][1:] |= launcher[1:] != launcher[:-1]
    of: Ints = np.empty(count, np.int32)
    np.subtract(np.cumsum(begins, dtype=np.int32), 1, out=of)
    first = np.flatnonzero(begins)
    launch = nodes.launch[first]
    launched_by = np.where(launch >= 0, of[launch], -1).astype(np.int64)
    source, target = of[edges.source].astype(np.int64), of[edges.target].astype(np.int64)
    by_target = np.argsort(target, kind="stable")
    between = Edges(source, target, edges.lag, edges.kind).where(by_target)
    edges_of = np.searchsorted(between.target, np.arange(len(first) + 1))
    order = _order(nodes, first, launched_by, between)
    return Runs(first, of, launched_by, order, between, edges_of)


def _order(nodes: Nodes, first: Ints, launched_by: Ints, edges: Edges) -> Ints:
    """Return the runs by the start of their first node, put right where an edge goes back."""
    sort = ORDER_AT_ONCE[nodes.sort[first]]
    order = np.lexsort((first, sort, nodes.start[first]))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    chained = np.flatnonzero(nodes.follows[first])
    launched = np.flatnonzero(launched_by >= 0)
    source = np.concatenate([chained - 1, launched_by[launched], edges.source])
    target = np.concatenate([chained, launched, edges.target])
    if bool(np.all(place[source] < place[target])):
        return order
    before: dict[int, list[int]] = {run: [] for run in order.tolist()}
    for one, other in zip(source.tolist(), target.tolist(), strict=True):
        before[other].append(one)
    try:
        return np.array([*TopologicalSorter(before).static_order()], np.int64)
    except CycleError as error:
        raise QueryError(
            f"replay is refused: {len(error.args[1]) - 1} stretches of this run depend on each"
            " other in a circle; the times of its traces contradict each other"
        ) from error


def replay(nodes: Nodes, edges: Edges, runs: Runs | None = None) -> Ints:
    """Return when every node starts, ns since the graph's origin."""
    go_on()
    runs = runs_of(nodes, edges) if runs is None else runs
    begun, _ = times(nodes, runs, lengths(nodes, runs))
    launched = np.where(runs.launched_by >= 0, begun[runs.launched_by], -FAR)
    start = np.empty(len(nodes), np.int64)
    for block in nodes.blocks():
        of, since = runs.of[block], _since(nodes, runs, block)
        np.maximum(begun[of] + since.begin, launched[of] + since.launch, out=start[block])
    return start


class Since(NamedTuple):
    """How long after what a run depends on each node starts at the earliest, or the run ends."""

    begin: Ints
    """Since its run may begin."""
    launch: Ints
    """Since the run that launches it began; NEVER if none does."""


def _since(nodes: Nodes, runs: Runs, block: slice) -> Since:
    # what a rank's ops take is summed up twice, which is less than to keep it
    of, delay = runs.of[block], nodes.delay[block]
    first = np.flatnonzero(np.diff(of, prepend=-1))
    number = of - of[0]
    along = np.zeros(len(of), np.int64)
    along[1:] = delay[1:] + nodes.length[block][:-1] + nodes.lag[block][1:]
    along[first] = 0
    np.cumsum(along, out=along)
    along -= along[first][number]
    after_begin = along + delay[first][number]
    launch = nodes.launch[block]
    launched = np.flatnonzero(launch >= 0)
    earliest = np.full(len(of), NEVER)
    # ops are launched by calls of their own rank
    earliest[launched] = (
        after_begin[launch[launched] - block.start]
        + nodes.launch_lag[block][launched]
        + delay[launched]
        - along[launched]
    )
    return Since(after_begin, np.maximum(_running_maxima(earliest, number) + along, NEVER))


def _running_maxima(values: Ints, run: Ints) -> Ints:
    """Return running maxima within each run of values of less than 2^41."""
    # a run's values lie above all of the run before it; a block of runs at a time keeps them small
    result = np.empty_like(values)
    edges = np.searchsorted(run, np.arange(0, int(run[-1]) + 1 + BLOCK, BLOCK))
    for begin, end in pairwise(edges.tolist()):
        above = (run[begin:end].astype(np.int64) - int(run[begin])) << 42 if end > begin else 0
        result[begin:end] = np.maximum.accumulate(values[begin:end] + above) - above
    return result


BLOCK = 1 << 20
"""Runs whose maxima are taken at a time."""


def times(nodes: Nodes, runs: Runs, of: Since) -> tuple[Ints, Ints]:
    """Return when each run may begin, the latest of what it depends on, the delay left out; and
    when its last node ends, given the lengths of the runs."""
    ends, launched_ends = of.begin.tolist(), of.launch.tolist()
    follows = (nodes.lag[runs.first] > FREE).tolist()
    chain_lag = nodes.lag[runs.first].tolist()
    launched_by = runs.launched_by.tolist()
    sources, lags = runs.edges.source.tolist(), runs.edges.lag.tolist()
    edges_of = runs.edges_of.tolist()
    begun = [0] * len(runs.first)
    end = [0] * len(runs.first)
    for run in runs.order.tolist():
        begin = end[run - 1] + chain_lag[run] if follows[run] else -FAR
        for edge in range(edges_of[run], edges_of[run + 1]):
            through = end[sources[edge]] + lags[edge]
            if through > begin:
                begin = through
        by = launched_by[run]
        if by >= 0:
            launched_end = begun[by] + launched_ends[run]
            own_end = begin + ends[run]
            end[run] = launched_end if launched_end > own_end else own_end
        else:
            if begin == -FAR:
                begin = 0
            end[run] = begin + ends[run]
        begun[run] = begin
    return np.array(begun, np.int64), np.array(end, np.int64)


def lengths(nodes: Nodes, runs: Runs) -> Since:
    """Return when the last node of each run ends."""
    last = np.append(runs.first[1:], len(nodes)) - 1
    begin, launch = np.empty(len(last), np.int64), np.empty(len(last), np.int64)
    for block in nodes.blocks():
        since = _since(nodes, runs, block)
        mine = slice(int(runs.of[block.start]), int(runs.of[block.stop - 1]) + 1)
        at = last[mine] - block.start
        begin[mine] = since.begin[at] + nodes.length[last[mine]]
        launch[mine] = since.launch[at] + nodes.length[last[mine]]
    return Since(begin, launch)


def slack(nodes: Nodes, edges: Edges) -> Ints:
    """Return how long after all that it depends on each node starts: its delay.

    The delay of what depends on nothing is its start.
    """
    ready = np.full(len(nodes), -FAR)
    for block in nodes.blocks():
        end, mine = nodes.ends(block), ready[block]
        mine[1:] = np.where(nodes.follows[block][1:], end[:-1] + nodes.lag[block][1:], -FAR)
        launch = nodes.launch[block]
        launched = np.flatnonzero(launch >= 0)
        called = nodes.start[launch[launched]] + nodes.launch_lag[block][launched]
        mine[launched] = np.maximum(mine[launched], called)
    source = edges.source
    np.maximum.at(ready, edges.target, nodes.ends(source) + edges.lag)
    ready[ready == -FAR] = 0
    delay: Ints = np.subtract(nodes.start, ready, out=ready)
    return delay
