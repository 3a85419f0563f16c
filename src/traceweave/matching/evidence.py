"""What distances say of two readings of the same calls, as the logarithm of how many times likelier
one is."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.medians import running_median

LEAST = 8
"""Calls below which nothing is proven."""
PROVEN = 15.0
"""Logarithm of how many times likelier one reading must be than the other."""
PER_CALL = 0.15
"""The same per call: a great many calls that each say next to nothing say nothing."""
FREEDOM = 3.0
"""Degrees of freedom of the noise."""
FLOOR_NS = 1_000.0
"""Whole microseconds are the coarsest that profilers write."""
SHARE = 0.25
"""Share of the calls that are alike, of one sort or in one place of a program, that must be of a
group or pair: what is left over by others meets by chance."""
ALIKE = 31
"""Calls, about equally long, that tell how far ends of such calls scatter."""


def likelier(one: Floats, other: Floats, took: Floats | None = None) -> Floats:
    """Return, call by call, the logarithm of how many times likelier distances `one` are than
    `other`, under the noise of the nearer ones; of calls that take about as long, if it is known
    how long they take: the ends of a large transfer scatter more.
    """
    distances = np.stack([np.abs(one), np.abs(other)])
    if took is None:
        typical = np.median(distances, axis=1, keepdims=True)
    else:
        order = np.argsort(took, kind="stable")
        typical = np.empty_like(distances)
        for row, of in zip(typical, distances, strict=True):
            row[order] = running_median(of[order], ALIKE)
    noise = np.maximum(FLOOR_NS, 1.4826 * typical.min(axis=0))
    return surprise(other / noise) - surprise(one / noise)


def clear(evidence: float, calls: int) -> bool:
    """Whether evidence from so many calls is enough to tell."""
    return bool(verdicts(np.array(evidence), np.array(calls)))


def verdicts(evidence: Floats, calls: Ints) -> Floats:
    """Return of evidence from so many calls each: 1, or -1 against, where it is clear; else 0."""
    enough = np.where(calls >= LEAST, np.maximum(PROVEN, PER_CALL * calls), np.inf)
    return np.where(np.abs(evidence) >= enough, np.sign(evidence), 0)


def surprise(distance: Floats) -> Floats:
    """Return minus the log density of distances under Student's t, up to what all have in common:
    single calls decide nothing."""
    return np.asarray((FREEDOM + 1) / 2 * np.log1p(distance**2 / FREEDOM))
