"""What the clock of a host does over time: a line, a smooth bend, steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.interpolate import BSpline
from scipy.linalg import eigh

from traceweave.arrays import Floats

KNOTS = 16
"""Spans of the bend: what turns faster than in a sixteenth of a recording is not told from noise.
"""
BENDS = KNOTS + 1
FUNCTIONS = 2 + BENDS
"""Of a clock without steps: a line's two, and the bend's."""


@dataclass(frozen=True)
class Step:
    """A step of a clock, or of several, as those of ranks of a host that nobody named: between two
    instances that tie them to others, on the common clock, ns."""

    units: tuple[int, ...]
    since: float
    until: float

    @property
    def at(self) -> float:
        """The middle."""
        return (self.since + self.until) / 2


@cache
def _spline() -> BSpline:
    """Cubic splines on [-1, 1] of which independent coefficients of one variance make the second
    derivative white noise (a smoothing spline as a mixed model; Wahba 1990)."""
    knots = np.r_[[-1.0] * 3, np.linspace(-1, 1, KNOTS + 1), [1.0] * 3]
    x = np.linspace(-1, 1, 40 * KNOTS)
    second = BSpline(knots, np.eye(KNOTS + 3), 3).derivative(2)(x)
    value, vector = eigh(second.T @ second * (x[1] - x[0]))
    return BSpline(knots, 0.5 * vector[:, 2:] / np.sqrt(value[2:]), 3)


def functions(when: Floats, span: tuple[float, float], bends: bool = True) -> Floats:
    """Return a row per moment: 1, x, and if wanted the bend's functions, x from -1 to 1 over the
    span."""
    x = 2 * (when - span[0]) / (span[1] - span[0]) - 1
    if not bends:
        return np.stack([np.ones_like(x), x], axis=-1)
    return np.column_stack([np.ones_like(x), x, _spline()(np.clip(x, -1, 1))])
