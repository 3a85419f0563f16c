"""How long steps take, by the starts and lengths of nodes: as measured, or as replay gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.host import begins_here
from traceweave.replay.lookups import most_common
from traceweave.replay.nodes import Nodes, Sort, joined
from traceweave.replay.rank_graph import RankGraph

NONE = -1
"""No node; the number of the step that a recording without steps is."""


@dataclass(frozen=True)
class Moments:
    """Moments that move with nodes."""

    node: Ints
    """-1: none, the moment counts from the graph's origin."""
    after: Ints
    """ns after the node's start,"""
    at_end: Flags
    """or after its end,"""
    until: Ints
    """but no later than this node starts; -1: none."""

    @classmethod
    def starts(cls, node: Ints) -> Moments:
        """When nodes start; the graph's origin for none."""
        zeros = np.zeros_like(node)
        return cls(node, zeros, zeros > 0, zeros + NONE)

    def of(self, nodes: Nodes) -> Ints:
        """Return when they are, in the given graph."""
        edge = nodes.start[self.node] + np.where(self.at_end, nodes.length[self.node], 0)
        when = np.where(self.node >= 0, edge, 0) + self.after
        return np.where(self.until >= 0, np.minimum(when, nodes.start[self.until]), when)


@dataclass(frozen=True)
class Spans:
    """Where steps begin and end."""

    rank: Ints
    step: Ints
    begin: Moments
    end: Moments
    last: Ints
    """Ops the last of which ends a window that no other follows,"""
    last_of: Ints
    """and the number of that window."""

    def lengths(self, nodes: Nodes) -> Ints:
        """Return the length of each window."""
        end = self.end.of(nodes)
        np.maximum.at(end, self.last_of, nodes.ends(self.last))
        lengths: Ints = end - self.begin.of(nodes)
        return lengths

    def change(self, before: Nodes, now: Nodes) -> Floats:
        """Return how much longer each window takes, ns.

        A window that no other follows ends with its last op and does not see what comes before the
        next step, such as getting its data; the first one begins earlier if what was recorded
        before it is shorter, though it takes no longer then. Of one on the host that begins or ends
        the recording, it is not known what precedes its first call or follows its last. They take
        the mean of the rank's others, if there are any.
        """
        longer = (self.lengths(now) - self.lengths(before)).astype(np.float64)
        is_edge = np.isin(np.arange(len(longer)), self.last_of)
        moves = self.begin.of(now) != self.begin.of(before)
        is_edge |= (np.diff(self.rank, prepend=-1) != 0) & (moves | (self.begin.node == NONE))
        is_last = np.diff(self.rank, append=-1) != 0
        is_edge |= is_last & self.end.at_end & (self.end.until == NONE)
        ranks, mean = _means(self.rank[~is_edge], longer[~is_edge])
        replaced = is_edge & np.isin(self.rank, ranks)
        longer[replaced] = mean[np.searchsorted(ranks, self.rank[replaced])]
        return longer


@dataclass(frozen=True)
class Windows:
    """The steps of all ranks."""

    spans: Spans
    device: Spans | None = None
    """Of windows that are the host's: those of the device, whose pace steps keep too,"""
    measured: Nodes | None = None
    """and the nodes as measured."""

    def mean(self, nodes: Nodes) -> float:
        """Return the mean over steps of their mean over ranks, ns."""
        return float(np.mean(self.by_step(nodes)[1]))

    def by_step(self, nodes: Nodes) -> tuple[Ints, Floats]:
        """Return the steps and their mean length over ranks, ns."""
        return self._by(lambda spans: spans.step, nodes)

    def by_rank(self, nodes: Nodes) -> tuple[Ints, Floats]:
        """Return the ranks and the mean length of their steps, ns."""
        return self._by(lambda spans: spans.rank, nodes)

    def _by(self, key: Callable[[Spans], Ints], nodes: Nodes) -> tuple[Ints, Floats]:
        spans, device, measured = self.spans, self.device, self.measured
        if device is None or measured is None or nodes is measured:
            return _means(key(spans), spans.lengths(nodes))
        found, own = _means(key(spans), spans.lengths(measured))
        longer = _means(key(spans), spans.change(measured, nodes))[1]
        # a host that only launches does not see what the device then takes longer
        alike, on_device = _means(key(device), device.change(measured, nodes))
        return found, own + (
            np.maximum(longer, on_device) if np.array_equal(found, alike) else longer
        )


def _means(keys: Ints, values: Ints | Floats) -> tuple[Ints, Floats]:
    found, number = np.unique(keys, return_inverse=True)
    return found, np.bincount(number, values) / np.bincount(number)


def windows(graph: Graph) -> Windows:
    """Return the windows of a run's steps, those that `steps` measures by.

    Where the device windows only mirror how far the host is ahead, those of the host count.
    """
    device, host = _of(graph, _device), _of(graph, _host)
    if not len(host.step):
        return Windows(_of(graph, _whole))
    if not len(device.step):
        return Windows(host)
    nodes, on_device = graph.nodes, Windows(device)
    spread, of_host = (_spread(one.by_step(nodes)[1]) for one in (on_device, Windows(host)))
    if spread > 0.1 and 2 * of_host < spread and _tile(host, nodes):
        return Windows(host, device, nodes)
    return on_device


def _tile(host: Spans, nodes: Nodes) -> bool:
    """Whether ranges on the host are whole steps of every rank, not a part of each: by the median,
    as a rank may have been recorded several times."""
    follows = np.diff(host.rank) == 0
    rank = host.rank[:-1][follows]
    covered = host.lengths(nodes)[:-1][follows] / np.diff(host.begin.of(nodes))[follows]
    return all(np.median(covered[rank == one]) > 0.9 for one in np.unique(rank))


def _spread(lengths: Floats) -> float:
    middle = np.sort(lengths)[(len(lengths) - 1) // 2]
    return float((lengths.max() - lengths.min()) / middle) if middle > 0 else 0.0


def _of(graph: Graph, of_rank: Callable[[Graph, RankGraph], Spans]) -> Spans:
    found = [of_rank(graph, part) for part in graph.parts]
    first = np.cumsum([0, *(len(spans.step) for spans in found)]).tolist()
    return Spans(
        np.concatenate([spans.rank for spans in found]),
        np.concatenate([spans.step for spans in found]),
        joined(*(spans.begin for spans in found)),
        joined(*(spans.end for spans in found)),
        np.concatenate([spans.last for spans in found]),
        np.concatenate([s.last_of + one for s, one in zip(found, first, strict=False)]),
    )


def _device(graph: Graph, part: RankGraph) -> Spans:
    """From the first op of a step to that of the next; one that `steps` ends before, or that none
    follows, to the end of its last op. The only step of a rank begins and ends with its range on
    the host where `steps` says so.
    """
    nodes, steps = graph.nodes, part.steps
    known = np.flatnonzero(part.first_op >= 0)
    begin, step = part.first_op[known], steps["step"][known]
    follows = steps["followed"][known] > 0
    next_begin = np.append(begin[1:], NONE)[: len(known)]
    begins, ends = Moments.starts(begin), Moments.starts(np.where(follows, next_begin, NONE))
    ended = np.flatnonzero(~follows)
    of_last = _ops(graph, part)
    of_last = of_last[np.isin(nodes.step[of_last], step[ended])]
    last_of = ended[np.searchsorted(step[ended], nodes.step[of_last])]
    if len(known) == 1 and begins_here(steps):
        begins = replace(Moments.starts(np.array([NONE])), after=steps["start_ns"])
    if len(known) == len(steps["step"]) == 1:
        end = steps["end_ns"]
        after = _after_last(graph, part.nodes, end)
        is_later = np.all(nodes.ends(of_last) < end) and after.node >= 0
        if is_later and steps["device_end_ns"] == end:
            ends = after
    return Spans(np.full(len(step), part.rank), step, begins, ends, of_last, last_of)


def _host(graph: Graph, part: RankGraph) -> Spans:
    """The ranges that the profiler marked, which move with what the host did last."""
    begin, end = (
        _after_last(graph, part.nodes, part.steps[name]) for name in ("start_ns", "end_ns")
    )
    step, none = part.steps["step"], np.empty(0, np.int64)
    return Spans(np.full(len(step), part.rank), step, begin, end, none, none)


def _after_last(graph: Graph, mine: slice, at: Ints) -> Moments:
    """Return moments as they lie after the host's node that ended last before each.

    They pass no node that its thread runs next: a pause that a step ends in may go away.
    """
    nodes = graph.nodes
    sort = nodes.sort[mine]
    if graph.has_gpu:
        host = np.flatnonzero((sort == Sort.CALL) | (sort == Sort.EXIT)) + mine.start
    else:
        host = np.flatnonzero(np.isin(sort, (Sort.COMPUTE, Sort.CALL))) + mine.start
        # other threads than the one with most operators serve collectives
        host = host[most_common(nodes.chain[host])]
    host = host[np.argsort(nodes.ends(host), kind="stable")]
    place = np.searchsorted(nodes.ends(host), at, side="right") - 1
    last = np.where(place >= 0, np.append(host, NONE)[place], NONE)
    after = np.minimum(last + 1, mine.stop - 1)
    is_next = (place >= 0) & (after > last) & nodes.follows[after] & (nodes.start[after] >= at)
    return Moments(
        last,
        at - np.where(place >= 0, nodes.ends(last), 0),
        np.ones(len(at), bool),
        np.where(is_next, after, NONE),
    )


def _whole(graph: Graph, part: RankGraph) -> Spans:
    """The whole recording of a rank, from its first op to its last."""
    ops = _ops(graph, part)
    begin, none = ops[[np.argmin(graph.nodes.start[ops])]], np.array([NONE])
    begins, ends = Moments.starts(begin), Moments.starts(none)
    return Spans(np.array([part.rank]), none, begins, ends, ops, np.zeros_like(ops))


def _ops(graph: Graph, part: RankGraph) -> Ints:
    ops: Ints = np.flatnonzero(graph.nodes.sort[part.nodes] < Sort.CALL) + part.nodes.start
    return ops
