"""Equations of a symmetric positive matrix, solved for several right-hand sides."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats

FEW = 256
"""Unknowns up to which NumPy does it, which has no triangular solver: beyond, its inverse costs
more than SciPy, which takes a tenth of a second to import.
"""


class Positive:
    """The matrix, factored."""

    def __init__(self, matrix: Floats) -> None:
        self._few = len(matrix) <= FEW
        if self._few:
            # unknowns differ by 30 orders of magnitude, which an inverse does not stand
            self._unit = 1 / np.sqrt(np.diag(matrix))[:, None]
            self._factor = np.linalg.inv(np.linalg.cholesky(matrix * self._unit * self._unit.T))
            return
        from scipy.linalg import cholesky

        self._factor = cholesky(matrix, lower=True, check_finite=False)

    def solve(self, right: Floats) -> Floats:
        """Return the unknowns, a column per column of `right`."""
        if self._few:
            return np.asarray(self._unit * (self._factor.T @ (self._factor @ (self._unit * right))))
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self._factor, True), right, check_finite=False))
