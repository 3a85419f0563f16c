"""How the ends of hosts scatter around their bends, and how much an end far out may say.

Which loss suits depends on the ends: squares where they scatter evenly, Tukey's biweight where
there are outliers, and nearly the distance itself where most lie in a sharp peak and the rest far
around it, as in real rings. The one under which these very ends promise the least variance is
taken. Lines keep to the first two (scatter.py): lags are fitted beside them, and on a real host,
whose clocks have no drift, drifts of 20 ppm in place of 13 came out with the third.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np

from traceweave.arrays import Floats


@dataclass(frozen=True)
class Loss:
    """What an end costs by its distance, in sigmas."""

    core: float
    """Beyond this it grows like the distance, not like its square,"""
    limit: float
    """and at this it no longer grows."""

    def weights(self, size: Floats) -> Floats:
        """Return the slope of the loss over the distance: the weight of an end by itself."""
        kept = 1 - np.minimum(size / self.limit, 1.0) ** 2
        return np.asarray(kept**2 / np.sqrt(1 + (size / self.core) ** 2))

    def of_rows(self, size: Floats) -> tuple[Floats, Floats]:
        """Return what every row costs, and what it would at one unit of scatter."""
        u = np.minimum(size, self.limit)
        cost = np.nansum(u**2 / (1 + np.sqrt(1 + (u / self.core) ** 2)), axis=1)
        others = np.maximum(np.isfinite(size).sum(axis=1) - 1, 1)
        return cost, others / (2 if np.isinf(self.core) else 1)

    def promise(self, size: Floats) -> float:
        """Return the variance that these ends promise for their middle, times how many they are:
        that of psi over the square of the mean of psi'.
        """
        square = (size / self.core) ** 2
        out = np.minimum(size / self.limit, 1.0) ** 2
        slope = (1 - out) / np.sqrt(1 + square) * ((1 - out) / (1 + square) - 4 * out)
        bend = float(np.mean(slope))
        return float(np.mean((size * self.weights(size)) ** 2)) / bend**2 if bend > 0 else np.inf


LOSSES = (
    Loss(np.inf, 4.685),
    Loss(np.inf, 6.0),
    Loss(np.inf, 9.0),
    Loss(np.inf, 1e6),
    Loss(0.2, 20.0),
)
"""The first has 95 % efficiency for normal noise, the fourth weighs everything alike."""
LOOK = 20_000
"""Ends that the choice rests on."""
FREEDOMS = (0.5, 2.0, 8.0, 32.0, 128.0)
"""How alike the instances of a sort may scatter: the less they do, the more do those say whose ends
lie together."""
TRACE = 1e-6
"""Weight that an outlier keeps, or a clock could come loose from all others."""


@dataclass(frozen=True)
class Scatter:
    """Scatter of the ends of one sort of collective around bends."""

    sigma: float
    """From their median distance, ns."""
    loss: Loss
    typical: float
    """Cost of an instance in the middle of all, over what it would be at one sigma."""
    freedom: float
    scale: float
    """Weight of an end in the middle: makes the information of all ends that of their variance."""

    def weights(self, size: Floats) -> Floats:
        """Return the weight of ends `size` sigmas from their instance's middle; NaN if absent.

        An end far out is damped by itself, and an instance by how far all its ends lie apart (as in
        a multivariate t distribution).
        """
        alone = self.loss.weights(np.where(np.isnan(size), 1.0, size))
        cost, usual = self.loss.of_rows(size)
        together = (self.freedom + usual) / (self.freedom + cost / self.typical)
        return np.asarray(self.scale * np.maximum(together[:, None] * alone, TRACE))


def measure_scatter(rests: list[Floats], sigma: float) -> Scatter:
    """Return the scatter of ends, given their distances from their instances' middles, ns."""
    rows = [rest[:: -(-rest.size * len(rests) // LOOK)] for rest in rests]
    size = np.abs(np.concatenate([_from_others(row).ravel() for row in rows]))
    size = size[np.isfinite(size)]
    size = np.append(size, 0.0)
    size /= max(sigma, 1.4826 * float(np.median(size)))
    variance, _, loss = min((loss.promise(size), n, loss) for n, loss in enumerate(LOSSES))
    parts = [loss.of_rows(np.abs(row) / sigma) for row in rows]
    cost, usual = (np.concatenate(part) for part in zip(*parts, strict=True))
    typical = max(float(np.median(cost / usual)), 1e-3)
    freedom = max(FREEDOMS, key=lambda freedom: _likelihood(cost / typical, usual, freedom))
    scale = 1 / (max(variance, 1.0) * sigma**2 * float(np.mean(loss.weights(size))))
    return Scatter(sigma, loss, typical, freedom, scale)


def _from_others(rest: Floats) -> Floats:
    """Distance of every end from the median of the others of its row; from that of all, one end of
    each row would lie at 0, and every scatter would have a peak there.
    """
    ranked, place = np.sort(rest, axis=1), np.argsort(np.argsort(rest, axis=1), axis=1)
    count = np.isfinite(rest).sum(axis=1)[:, None]
    row, last = np.arange(len(rest))[:, None], rest.shape[1] - 1
    low, high = (
        ranked[row, np.minimum(here + (here >= place), last)]
        for here in (np.maximum(count - 2, 0) // 2, np.maximum(count - 1, 0) // 2)
    )
    return np.asarray(rest - (low + high) / 2)


def _likelihood(cost: Floats, usual: Floats, freedom: float) -> float:
    """How likely instances differ in cost as they do, where the inverse of their scatter has a
    gamma distribution of so much freedom; its logarithm."""
    counts, which = np.unique(usual, return_inverse=True)
    known = np.array([lgamma(freedom + m) - lgamma(freedom) for m in counts.tolist()])[which]
    spread = freedom * np.log(freedom) - (freedom + usual) * np.log(freedom + cost)
    return float(np.sum(known + spread))
