"""How long steps take, by the starts and lengths of nodes: as measured, or as replay gives them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.host import begins_here
from traceweave.replay.nodes import Nodes, Sort, joined
from traceweave.replay.rank_graph import RankGraph

WHOLE = -1
"""The number of the step that a recording without steps is."""

NO_NODE = -1


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

    def of(self, nodes: Nodes) -> Ints:
        """Return when they are, in the given graph."""
        edge = nodes.start[self.node] + np.where(self.at_end, nodes.length[self.node], 0)
        when = np.where(self.node >= 0, edge, 0) + self.after
        return np.where(self.until >= 0, np.minimum(when, nodes.start[self.until]), when)


@dataclass(frozen=True)
class Windows:
    """Where the steps of all ranks begin and end."""

    rank: Ints
    step: Ints
    begin: Moments
    end: Moments
    basis: str
    """'device', 'host' or 'recording': what the windows are."""
    last: Ints
    """Ops the last of which ends a window that no other follows,"""
    last_of: Ints
    """and the number of that window."""
    device: Windows | None = None
    """Of windows that are the host's: those of the device, whose pace steps keep too,"""
    measured: Nodes | None = None
    """and the nodes as measured."""

    def lengths(self, nodes: Nodes) -> Ints:
        """Return the length of each window."""
        end = self.end.of(nodes)
        ended = nodes.start[self.last] + nodes.length[self.last]
        np.maximum.at(end, self.last_of, ended)
        lengths: Ints = end - self.begin.of(nodes)
        return lengths

    def mean(self, nodes: Nodes) -> float:
        """Return the mean over steps of their mean over ranks, ns."""
        return float(np.mean(self.by_step(nodes)[1]))

    def by_step(self, nodes: Nodes) -> tuple[Ints, Floats]:
        """Return the steps and their mean length over ranks, ns."""
        return self._by(lambda windows: windows.step, nodes)

    def by_rank(self, nodes: Nodes) -> tuple[Ints, Floats]:
        """Return the ranks and the mean length of their steps, ns."""
        return self._by(lambda windows: windows.rank, nodes)

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
        is_first = np.diff(self.rank, prepend=-1) != 0
        is_last = np.diff(self.rank, append=-1) != 0
        moves = self.begin.of(now) != self.begin.of(before)
        is_edge |= is_first & (moves | (self.begin.node == NO_NODE))
        is_edge |= is_last & self.end.at_end & (self.end.until == NO_NODE)
        ranks, mean = _means(self.rank[~is_edge], longer[~is_edge])
        replaced = is_edge & np.isin(self.rank, ranks)
        longer[replaced] = mean[np.searchsorted(ranks, self.rank[replaced])]
        return longer

    def _by(self, key: Callable[[Windows], Ints], nodes: Nodes) -> tuple[Ints, Floats]:
        found, own = _means(key(self), self.lengths(nodes))
        if self.device is not None and self.measured is not None and nodes is not self.measured:
            own = self._by(key, self.measured)[1]
            longer = _means(key(self), self.change(self.measured, nodes))[1]
            # a host that only launches does not see what the device then takes longer
            alike, on_device = _means(key(self.device), self.device.change(self.measured, nodes))
            own += np.maximum(longer, on_device) if np.array_equal(found, alike) else longer
        return found, own


def _means(keys: Ints, values: Ints | Floats) -> tuple[Ints, Floats]:
    found, number = np.unique(keys, return_inverse=True)
    return found, np.bincount(number, values) / np.bincount(number)


def windows(graph: Graph) -> Windows:
    """Return the windows of a run's steps, those that `steps` measures by.

    Where the device windows only mirror how far the host is ahead, those of the host count.
    """
    device, host = _of(graph, _device, "device"), _of(graph, _host, "host")
    if device is None and host is None:
        whole = _of(graph, _whole, "recording")
        assert whole is not None
        return whole
    if device is None or host is None:
        found = device or host
        assert found is not None
        return found
    spread = _spread(device.by_step(graph.nodes)[1])
    only_mirrors = spread > 0.1 and 2 * _spread(host.by_step(graph.nodes)[1]) < spread
    if not only_mirrors or not _tile(host, graph.nodes):
        return device
    return replace(host, device=device, measured=graph.nodes)


def _tile(host: Windows, nodes: Nodes) -> bool:
    """Whether ranges on the host are whole steps of every rank, not a part of each: by the median,
    as a rank may have been recorded several times."""
    follows = np.diff(host.rank) == 0
    rank = host.rank[:-1][follows]
    covered = host.lengths(nodes)[:-1][follows] / np.diff(host.begin.of(nodes))[follows]
    return all(np.median(covered[rank == one]) > 0.9 for one in np.unique(rank))


def _spread(lengths: Floats) -> float:
    middle = np.sort(lengths)[(len(lengths) - 1) // 2]
    return float((lengths.max() - lengths.min()) / middle) if middle > 0 else 0.0


@dataclass(frozen=True)
class _OfRank:
    step: Ints
    begin: Moments
    end: Moments
    last: Ints
    """Ops that end those that no other follows,"""
    last_of: Ints
    """and which of them."""


def _of(
    graph: Graph, of_rank: Callable[[Graph, RankGraph, slice], _OfRank], basis: str
) -> Windows | None:
    found = [of_rank(graph, part, mine) for part, mine in graph.of_ranks()]
    counts = np.array([len(f.step) for f in found])
    if not counts.sum():
        return None
    firsts = np.cumsum(counts) - counts
    return Windows(
        np.repeat(np.array(graph.ranks), counts),
        np.concatenate([f.step for f in found]),
        joined(*(f.begin for f in found)),
        joined(*(f.end for f in found)),
        basis,
        np.concatenate([f.last for f in found]),
        np.concatenate([f.last_of + first for f, first in zip(found, firsts, strict=True)]),
    )


def _starts(node: Ints) -> Moments:
    return Moments(
        node, np.zeros_like(node), np.zeros(len(node), bool), np.full(len(node), NO_NODE)
    )


def _device(graph: Graph, part: RankGraph, mine: slice) -> _OfRank:
    """From the first op of a step to that of the next; one that `steps` ends before, or that none
    follows, to the end of its last op. The only step of a rank begins and ends with its range on
    the host where `steps` says so.
    """
    nodes = graph.nodes
    known = np.flatnonzero(part.first_op >= 0)
    begin, step = part.first_op[known] + mine.start, part.steps["step"][known]
    follows = part.steps["followed"][known] > 0
    next_begin = np.append(begin[1:], -1)[: len(known)]
    begins, ends = _starts(begin), _starts(np.where(follows, next_begin, -1))
    ended = np.flatnonzero(~follows)
    ops = np.flatnonzero((nodes.sort[mine] < Sort.CALL) & np.isin(nodes.step[mine], step[ended]))
    of_last = ops + mine.start
    last_of = ended[np.searchsorted(step[ended], nodes.step[of_last])]
    if len(known) == 1 and begins_here(part.steps):
        none = np.array([NO_NODE])
        begins = Moments(none, part.steps["start_ns"], np.array([False]), none)
    if len(known) == len(part.steps["step"]) == 1:
        end = part.steps["end_ns"]
        after = _after_last(graph, mine, end)
        is_later = np.all(nodes.end[of_last] < end) and after.node >= 0
        if is_later and part.steps["device_end_ns"] == end:
            ends = after
    return _OfRank(step, begins, ends, of_last, last_of)


def _host(graph: Graph, part: RankGraph, mine: slice) -> _OfRank:
    """The ranges that the profiler marked, which move with what the host did last."""
    begin = _after_last(graph, mine, part.steps["start_ns"])
    end = _after_last(graph, mine, part.steps["end_ns"])
    none = np.empty(0, np.int64)
    return _OfRank(part.steps["step"], begin, end, none, none)


def _after_last(graph: Graph, mine: slice, at: Ints) -> Moments:
    """Return moments as they lie after the host's node that ended last before each.

    They pass no node that its thread runs next: a pause that a step ends in may go away.
    """
    nodes = graph.nodes
    sort = nodes.sort[mine]
    if graph.has_gpu:
        on_host = (sort == Sort.CALL) | (sort == Sort.EXIT)
    else:
        # other threads than the one with most operators serve collectives
        chain, works = nodes.chain[mine], np.isin(sort, (Sort.COMPUTE, Sort.CALL))
        threads, count = np.unique(chain[works], return_counts=True)
        on_host = works & (chain == threads[np.argmax(count)])
    host = np.flatnonzero(on_host) + mine.start
    end = nodes.start[host] + nodes.length[host]
    order = np.argsort(end, kind="stable")
    place = np.searchsorted(end[order], at, side="right") - 1
    if not len(host):
        none = np.full(len(at), NO_NODE)
        return Moments(none, at, np.ones(len(at), bool), none)
    last = host[order[np.maximum(place, 0)]]
    after = np.minimum(last + 1, mine.stop - 1)
    is_next = (place >= 0) & (after > last) & nodes.follows[after] & (nodes.start[after] >= at)
    return Moments(
        np.where(place >= 0, last, NO_NODE),
        at - np.where(place >= 0, nodes.end[last], 0),
        np.ones(len(at), bool),
        np.where(is_next, after, NO_NODE),
    )


def _whole(graph: Graph, part: RankGraph, mine: slice) -> _OfRank:
    """The whole recording of a rank, from its first op to its last."""
    ops = np.flatnonzero(graph.nodes.sort[mine] < Sort.CALL) + mine.start
    begin = ops[[np.argmin(graph.nodes.start[ops])]]
    whole = np.array([WHOLE])
    return _OfRank(whole, _starts(begin), _starts(np.array([-1])), ops, np.zeros_like(ops))
