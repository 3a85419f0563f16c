"""What may be compared between two ranks: whether two calls may be one operation, and one clock
against another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.calls import Calls

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

    def apply(self, times: Ints | Floats) -> Floats:
        """Return times of a on b's clock."""
        return np.asarray(times + self.offset + self.drift * (times - self.at), dtype=np.float64)


def agree(a: Calls, i: Ints, b: Calls, j: Ints) -> Flags:
    """Whether the calls i of a and j of b may be one operation; an unknown size or type agrees with
    any.
    """
    size_a, size_b, type_a, type_b = a.size[i], b.size[j], a.dtype[i], b.dtype[j]
    return np.asarray(
        (a.op[i] == b.op[j])
        & ((size_a == size_b) | (size_a < 0) | (size_b < 0))
        & ((type_a == type_b) | (type_a < 0) | (type_b < 0))
    )


def fit_line(at: Floats, differences: Floats) -> Line:
    """Fit offset and drift to differences of ends by least absolute deviations over blocks of
    medians.
    """
    blocks = np.array_split(np.arange(len(at)), max(1, min(32, len(at) // 8)))
    x = np.array([np.median(at[block]) for block in blocks])
    y = np.array([np.median(differences[block]) for block in blocks])
    middle, drift = float(np.median(x)), 0.0
    if len(x) >= 4 and x[-1] > x[0]:
        rows, columns = np.triu_indices(len(x), 1)
        run = x[columns] - x[rows]
        drift = float(np.median((y[columns] - y[rows])[run > 0] / run[run > 0]))
        drift = drift if abs(drift) <= DRIFT_LIMIT else 0.0
    offset = float(np.median(differences - drift * (at - middle)))
    scatter = float(np.median(np.abs(differences - offset - drift * (at - middle))))
    return Line(offset, drift, middle, scatter)
