"""One rank's clock against another's, as matching needs it: through differences of ends, a line, or
a curve that follows clocks which step and wander.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.medians import medians_of_parts, running_median

DRIFT_LIMIT = 2e-4
"""Clocks of one cluster run at rates closer than this."""


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
