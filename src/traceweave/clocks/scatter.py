"""How the ends of collectives scatter, and how much an end far out may say.

Tukey's biweight needs to know where far out begins. Its constant is the one under which these very
ends promise the least variance (psi squared over the square of the mean of psi'): narrow where
there are outliers, plain least squares where the scatter has no tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats

CONSTANTS = (4.685, 6.0, 9.0, 1e6)
"""The first has 95 % efficiency for normal noise, the last weighs everything alike."""
LOOK = 20_000
"""Ends that the choice rests on."""
FREEDOM = 1.0
"""Degrees of freedom of the scatter of one instance around that of its sort: instances whose ends
lie together say more."""
TRACE = 1e-6
"""Weight that an outlier keeps, or a clock could come loose from all others."""


@dataclass(frozen=True)
class Scatter:
    """Scatter of the ends of one sort of collective."""

    sigma: float
    """From their median distance, ns."""
    constant: float
    """Distance, in sigmas, at which an end has no weight left."""
    scale: float
    """Weight of an end in the middle: makes the information of all ends that of their variance."""

    def weights(self, size: Floats) -> Floats:
        """Return the weight of ends `size` sigmas from their instance's middle; NaN if absent.

        An end far out is damped by itself (Tukey), and an instance by how far all its ends lie
        apart (the weight of a multivariate t distribution).
        """
        u = np.minimum(np.where(np.isnan(size), 1.0, size) / self.constant, 1.0)
        others = np.maximum(np.isfinite(size).sum(axis=1, keepdims=True) - 1, 1)
        apart = np.nansum(np.minimum(size, self.constant) ** 2, axis=1, keepdims=True)
        together = (FREEDOM + others) / (FREEDOM + apart)
        return np.asarray(self.scale * np.maximum(together * (1 - u**2) ** 2, TRACE))


def measure_scatter(rests: list[Floats], sigma: float) -> Scatter:
    """Return the scatter of ends, given their distances from their instances' middles, ns."""
    values = np.concatenate([rest[:: -(-rest.size * len(rests) // LOOK)].ravel() for rest in rests])
    u = values[np.isfinite(values)] / sigma
    best: tuple[float, float, float] | None = None
    for constant in CONSTANTS:
        v = np.minimum(np.abs(u) / constant, 1.0)
        psi = u * (1 - v**2) ** 2
        bend = float(np.mean((1 - v**2) * (1 - 5 * v**2)))
        square = float(np.mean(psi**2))
        if bend > 0 and square > 0 and (best is None or square / bend**2 < best[0]):
            best = (square / bend**2, constant, bend / square)
    if best is None:
        return Scatter(sigma, CONSTANTS[0], sigma**-2)
    return Scatter(sigma, best[1], min(best[2], 1.0) * sigma**-2)
