"""What the clock of a host does over time: a line, a smooth bend, steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from traceweave.arrays import Floats

KNOTS = 16
"""Spans of the bend: what turns faster than in a sixteenth of a recording is not told from noise.
"""
BENDS = KNOTS + 1
FUNCTIONS = 2 + BENDS
"""Of a clock without steps: a line's two, and the bend's."""
PIECES = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6
"""Of the four B-splines that count in a span: the factors of u ** 0 to 3, u from 0 to 1 in it (de
Boor 1978)."""


@dataclass(frozen=True)
class Step:
    """A step of a clock: between two instances that tie it to others, on the common clock, ns."""

    unit: int
    since: float
    until: float

    @property
    def at(self) -> float:
        """The middle."""
        return (self.since + self.until) / 2


def _splines(x: Floats, second: bool = False) -> Floats:
    """A row per x in [-1, 1]: cubic B-splines on spans of one width, or their second derivatives.
    SciPy's take longer to import than most runs to read."""
    place = (x + 1) * (KNOTS / 2)
    span = np.clip(np.nan_to_num(place), 0, KNOTS - 1).astype(np.int64)
    u = place - span
    powers = [0 * u, 0 * u, 0 * u + 2, 6 * u] if second else [u**0, u, u**2, u**3]
    rows = np.zeros((len(x), KNOTS + 3))
    rows[np.arange(len(x))[:, None], span[:, None] + np.arange(4)] = np.stack(powers, 1) @ PIECES
    return rows


@cache
def _bends() -> Floats:
    """What each B-spline adds to each function of the bend: independent coefficients of one
    variance make its second derivative white noise (a smoothing spline as a mixed model; Wahba
    1990)."""
    x = np.linspace(-1, 1, 40 * KNOTS)
    second = _splines(x, second=True)
    value, vector = np.linalg.eigh(second.T @ second * (x[1] - x[0]) * (KNOTS / 2) ** 4)
    return np.asarray(0.5 * vector[:, 2:] / np.sqrt(value[2:]))


def functions(when: Floats, span: tuple[float, float], bends: bool = True) -> Floats:
    """Return a row per moment: 1, x, and if wanted the bend's functions, x from -1 to 1 over the
    span."""
    x = 2 * (when - span[0]) / (span[1] - span[0]) - 1
    if not bends:
        return np.stack([np.ones_like(x), x], axis=-1)
    return np.column_stack([np.ones_like(x), x, _splines(np.clip(x, -1, 1)) @ _bends()])
