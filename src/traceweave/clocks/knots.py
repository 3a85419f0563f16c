"""What ends between two knots say of curves that are lines from knot to knot: sums over all ends,
knot by knot, and as the band that the equations of all knots are.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints


class Between:
    """The instances of a table, which ascend in time, by the two knots that they lie between."""

    def __init__(self, moments: Floats, knots: Floats) -> None:
        self.left = np.clip(np.searchsorted(knots, moments, side="right") - 1, 0, len(knots) - 2)
        """The knot before each instance,"""
        self.share = (moments - knots[self.left]) / (knots[self.left + 1] - knots[self.left])
        """and the share of the one after."""
        count = np.bincount(self.left)
        self.knots = np.flatnonzero(count)
        """Those that have instances after them."""
        turn = np.arange(count.max())
        there = turn < count[self.knots, None]
        rows = np.searchsorted(self.left, self.knots)[:, None] + turn
        self._rows = np.where(there, rows, 0)
        shares = self.share[self._rows][:, :, None]
        self.hats = np.where(there[:, :, None], [1 - shares, shares], 0.0)
        """Both shares of the instances of each knot, 0 where it has fewer than another."""

    def by_knot(self, values: Floats) -> Floats:
        """Values per instance (rows) as those of each knot."""
        return np.asarray(values[self._rows])


class KnotSums:
    """The sums of some clusters at some knots, and of unknowns that border them."""

    def __init__(self, knots: int, clusters: int, bordering: int) -> None:
        self.own = np.zeros((knots, clusters, clusters))
        """Between the clusters' values at a knot,"""
        self.next = np.zeros((knots - 1, clusters, clusters))
        """and between those at the next one (rows) and those at it."""
        self.right = np.zeros((knots, clusters))
        self.border = np.zeros((knots, clusters, bordering))

    def add(
        self, between: Between, clusters: Ints, weight: Floats, part: Floats, pull: Floats
    ) -> None:
        """Add what instances (rows) say of `clusters` (columns): the weight of each end, its part
        of that of all, and how it pulls."""
        weight, part, pull = (between.by_knot(values) for values in (weight, part, pull))
        for side, first in enumerate(between.hats):
            knots = between.knots + side
            self.right[np.ix_(knots, clusters)] += np.sum(first * pull, axis=1)
            self.own[np.ix_(knots, clusters, clusters)] += _metric(first * first * weight, part)
        low, high = between.hats
        self.next[np.ix_(between.knots, clusters, clusters)] += _metric(low * high * weight, part)

    def add_border(self, between: Between, clusters: Ints, number: int, moved: Floats) -> None:
        """Add what the instances say of the curves and a bordering unknown at once."""
        moved = between.by_knot(moved)
        for side, hat in enumerate(between.hats):
            place = np.ix_(between.knots + side, clusters)
            self.border[..., number][place] += np.sum(hat * moved, axis=1)

    def band(self, width: int) -> Floats:
        """Return the equations of all values, knot by knot, as the lower form of a band."""
        knots, clusters = self.right.shape
        band = np.zeros((width, knots * clusters))
        by_knot = band.reshape(width, knots, clusters)
        row, column = np.tril_indices(clusters)
        by_knot[row - column, :, column] = self.own[:, row, column].T
        row, column = np.indices((clusters, clusters)).reshape(2, -1)
        by_knot[clusters + row - column, :-1, column] = self.next[:, row, column].T
        return band


def _metric(both: Floats, part: Floats) -> Floats:
    """What weighted ends say of clusters at each knot, their instances' common ends eliminated."""
    metric = -np.matmul(both.transpose(0, 2, 1), part)
    diagonal = np.arange(metric.shape[1])
    metric[:, diagonal, diagonal] += both.sum(axis=1)
    return np.asarray(metric)
