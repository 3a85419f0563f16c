"""Partners found by time alone: calls of two ranks that end together, and near no other call.

For what neither numbers nor order decide: calls that one of two sequences lacks.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.calls import Calls, agree
from traceweave.matching.coarse_clocks import Line

ALONE = 0.3
"""Partners end this much nearer to each other than to any call beside them."""


def match_leftovers(a: Calls, line_a: Line, b: Calls, line_b: Line) -> Ints:
    """Match calls of two ranks by time alone, both on the clock of a third rank; -1 where none
    fits.
    """
    on_common = Line(0.0, 0.0, 0.0, max(line_a.scatter, line_b.scatter))
    partner = np.full(len(a), -1, dtype=np.int64)
    match_by_time(_on(a, line_a), _on(b, line_b), on_common, partner)
    return partner


def _on(calls: Calls, line: Line) -> Calls:
    """The calls on another clock."""
    start, end = (np.rint(line.apply(of)).astype(np.int64) for of in (calls.start, calls.end))
    return replace(calls, start=start, end=end)


def tolerance(line: Line) -> float:
    """Return how far, ns, the ends of partners may lie from the line between their clocks."""
    return max(8 * line.scatter, 60_000.0)


def match_by_time(a: Calls, b: Calls, line: Line, partner: Ints) -> None:
    """Give calls of a without a partner the free call of b that ends nearest, if each is the
    other's nearest.
    """
    free_a = np.flatnonzero(partner < 0)
    taken = np.zeros(len(b), dtype=np.bool_)
    taken[partner[partner >= 0]] = True
    free_b = np.flatnonzero(~taken)
    if not len(free_a) or not len(free_b):
        return
    ends_a, ends_b = line.apply(a.end[free_a]), b.end[free_b].astype(np.float64)
    forth = _nearest(ends_a, ends_b)
    back = _nearest(ends_b, ends_a)
    apart = np.abs(ends_b[forth] - ends_a)
    near = (apart <= tolerance(line)) & (apart <= ALONE * _room(a.end)[free_a])
    near &= apart <= ALONE * _room(b.end)[free_b[forth]]
    chosen = (back[forth] == np.arange(len(free_a))) & near & agree(a, free_a, b, free_b[forth])
    partner[free_a[chosen]] = free_b[forth[chosen]]


def _room(ends: Ints) -> Floats:
    """Distance from each end to the nearest other end of the sequence."""
    order = np.argsort(ends, kind="stable")
    steps = np.diff(ends[order].astype(np.float64), prepend=-np.inf, append=np.inf)
    room = np.empty(len(ends))
    room[order] = np.minimum(steps[:-1], steps[1:])
    return room


def _nearest(values: Floats, among: Floats) -> Ints:
    """Index in `among` of the value nearest to each of `values`."""
    order = np.argsort(among, kind="stable")
    ranked = among[order]
    right = np.clip(np.searchsorted(ranked, values), 1, max(1, len(ranked) - 1))
    right = np.minimum(right, len(ranked) - 1)
    left = np.maximum(right - 1, 0)
    closer = np.abs(values - ranked[left]) <= np.abs(ranked[right] - values)
    return np.asarray(order[np.where(closer, left, right)])
