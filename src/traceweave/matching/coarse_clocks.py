"""One rank's clock against another's, as matching needs it: through differences of ends, a line, or
a curve that follows clocks which step and wander. And what time alone tells where neither numbers
nor order decide: calls of two ranks that end together, and near no other call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.calls import Calls, agree
from traceweave.medians import medians_of_parts, running_median

DRIFT_LIMIT = 2e-4
"""Clocks of one cluster run at rates closer than this."""

ALONE = 0.3
"""Partners end this much nearer to each other than to any call beside them."""


@dataclass(frozen=True)
class Line:
    """A coarse clock: b's time = a's time + offset + drift * (a's time - at)."""

    offset: float
    drift: float
    at: float
    scatter: float
    """Median distance of a pair's ends from the line, ns."""

    def ahead(self, time: float) -> float:
        """Return how far b is ahead at a time of a."""
        return self.offset + self.drift * (time - self.at)

    def apply(self, times: Ints | Floats) -> Floats:
        """Return times of a on b's clock."""
        return np.asarray(times + self.offset + self.drift * (times - self.at), dtype=np.float64)


EXACT = Line(0.0, 0.0, 0.0, 0.0)
"""Of calls that are on one time already."""


def fit_line(at: Floats, differences: Floats, drift: float = 0.0) -> Line:
    """Fit offset and drift to differences of ends by least absolute deviations over blocks of
    medians; `drift`: where they are too few to tell.
    """
    count = max(1, min(32, len(at) // 8))
    x, y = medians_of_parts(at, count), medians_of_parts(differences, count)
    middle = float(np.median(x))
    if len(x) >= 4 and x[-1] > x[0]:
        drift = slope(x, y)
    offset = float(np.median(differences - drift * (at - middle)))
    scatter = float(np.median(np.abs(differences - offset - drift * (at - middle))))
    return Line(offset, drift, middle, scatter)


def slope(x: Floats, y: Floats) -> float:
    """Return the median slope between any two points (Theil and Sen), 0 if no two clocks drift
    apart like that."""
    rows, columns = np.triu_indices(len(x), 1)
    run = x[columns] - x[rows]
    there = run != 0
    found = float(np.median((y[columns] - y[rows])[there] / run[there])) if there.any() else 0.0
    return found if abs(found) <= DRIFT_LIMIT else 0.0


@dataclass(frozen=True)
class Curve:
    """A coarse clock: b's time = a's time + what is ahead at that time."""

    at: Floats
    ahead: Floats

    def apply(self, times: Ints | Floats) -> Floats:
        """Return times of a on b's clock."""
        return np.asarray(times + np.interp(times, self.at, self.ahead), dtype=np.float64)


def fit_curve(at: Floats, differences: Floats) -> Curve:
    """Follow the running median of differences of ends; beyond them, a line goes on."""
    order = np.argsort(at, kind="stable")
    at, smooth = at[order], running_median(differences[order])
    line = fit_line(at, differences[order])
    beyond = 10 * (at[-1] - at[0]) + 1e9
    at = np.r_[at[0] - beyond, at, at[-1] + beyond]
    return Curve(
        at, np.r_[smooth[0] - line.drift * beyond, smooth, smooth[-1] + line.drift * beyond]
    )


def on_clock(calls: Calls, clock: Line | Curve) -> Calls:
    """Return the calls on another clock."""
    start, end = (np.rint(clock.apply(of)).astype(np.int64) for of in (calls.start, calls.end))
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
