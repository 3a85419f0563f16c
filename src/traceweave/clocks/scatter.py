"""How the ends of collectives scatter, and how much an end far out may say.

Ends of real rings have a sharp peak and far tails, and some instances end far more apart than
others: Student's t, of instances around their sort and of ends around their instance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats

INSTANCES = 2.0
"""Degrees of freedom of the scatter of one instance around that of its sort: instances whose ends
lie together say more;"""
ENDS = 3.0
"""and of one end around its instance's."""
LOOK = 20_000
"""Ends that the scale rests on."""
STEPS = 8
"""Of expectation maximization for the scale,"""
TURNS = 3
"""and for weights where the scale is known."""


@dataclass(frozen=True)
class Scatter:
    """Scatter of the ends of one sort of collective."""

    sigma: float
    """Its scale, ns."""

    def weights(self, rest: Floats) -> Floats:
        """Return the weight of ends `rest` ns from their instance's middle; 0 if absent."""
        ends = _Ends.of(rest)
        square = (ends.rest / self.sigma) ** 2
        weight = ends.weights(square)
        for _ in range(TURNS):
            weight = ends.again(weight, square)
        return np.asarray(ends.weights_of_instances(weight, square) * weight / self.sigma**2)


def measure_scatter(rest: Floats, least_ns: float) -> Scatter:
    """Return the likeliest scatter of ends, given how late they are, a row per instance, from any
    common time, ns; NaN if absent. Its scale is no less than `least_ns`.
    """
    ends = _Ends.of(rest[:: -(-rest.size // LOOK)])
    late = ends.rest
    count = max(int(ends.known.sum()) - len(late), 1)
    scale = max(least_ns**2, float(np.median(late[ends.known > 0] ** 2)))
    weight = ends.weights(late**2 / scale)
    away = late
    for _ in range(STEPS):
        square = away**2 / scale
        weight = ends.again(weight, square)
        both = ends.weights_of_instances(weight, square) * weight
        total = np.maximum(both.sum(axis=1, keepdims=True), 1e-300)
        away = late - (both * late).sum(axis=1, keepdims=True) / total
        scale = max(least_ns**2, float((both * away**2).sum()) / count)
    return Scatter(float(np.sqrt(scale)))


@dataclass(frozen=True)
class _Ends:
    """Ends of instances, a row each, and what every turn of the weights asks of them.

    `square` below is of how far ends lie from their instance's middle, in units of the scale.
    """

    rest: Floats
    """How late they are, ns; 0 if absent."""
    known: Floats
    """1, or 0 if absent."""
    others: Floats
    """Ends of the same instance beside one of them, at least 1; a column."""

    @classmethod
    def of(cls, rest: Floats) -> _Ends:
        known = np.isfinite(rest).astype(np.float64)
        others = np.maximum(known.sum(axis=1, keepdims=True) - 1, 1)
        return cls(np.where(known > 0, rest, 0.0), known, others)

    def again(self, weight: Floats, square: Floats) -> Floats:
        """Weights of ends inside their instances, after one more turn."""
        return self.weights(self.weights_of_instances(weight, square) * square)

    def weights(self, square: Floats) -> Floats:
        return np.asarray(self.known * ((ENDS + 1) / (ENDS + square)))

    def weights_of_instances(self, weight: Floats, square: Floats) -> Floats:
        apart = (weight * square).sum(axis=1, keepdims=True)
        return np.asarray((INSTANCES + self.others) / (INSTANCES + apart))
