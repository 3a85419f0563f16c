"""How the ends of collectives scatter, and how much an end far out may say.

Ends of real rings have a sharp peak and far tails, and some instances end far more apart than
others: Student's t, of instances around their sort and of ends around their instance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats

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
        known = np.isfinite(rest)
        square = (np.where(known, rest, 0.0) / self.sigma) ** 2
        weight = _of_ends(square, known)
        for _ in range(TURNS):
            weight = _again(weight, square, known)
        return np.asarray(_of_instances(weight, square, known) * weight / self.sigma**2)


def measure_scatter(rest: Floats, least_ns: float) -> Scatter:
    """Return the likeliest scatter of ends, given how late they are, a row per instance, from any
    common time, ns; NaN if absent. Its scale is no less than `least_ns`.
    """
    few = rest[:: -(-rest.size // LOOK)]
    known = np.isfinite(few)
    few = np.where(known, few, 0.0)
    ends = max(int(known.sum()) - len(known), 1)
    scale = max(least_ns**2, float(np.median(few[known] ** 2)))
    weight = _of_ends(few**2 / scale, known)
    away = few
    for _ in range(STEPS):
        square = away**2 / scale
        weight = _again(weight, square, known)
        both = _of_instances(weight, square, known) * weight
        total = np.maximum(both.sum(axis=1, keepdims=True), 1e-300)
        away = few - np.sum(both * few, axis=1, keepdims=True) / total
        scale = max(least_ns**2, float(np.sum(both * away**2)) / ends)
    return Scatter(float(np.sqrt(scale)))


def _again(weight: Floats, square: Floats, known: Flags) -> Floats:
    """Weights of ends inside their instances, after one more turn; `square`: of how far they lie
    from the middle, in units of the scale."""
    return _of_ends(_of_instances(weight, square, known) * square, known)


def _of_ends(square: Floats, known: Flags) -> Floats:
    return np.asarray(known * ((ENDS + 1) / (ENDS + square)))


def _of_instances(weight: Floats, square: Floats, known: Flags) -> Floats:
    others = np.maximum(known.sum(axis=1, keepdims=True) - 1, 1)
    apart = np.sum(weight * square, axis=1, keepdims=True)
    return np.asarray((INSTANCES + others) / (INSTANCES + apart))
