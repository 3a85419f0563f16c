"""Which of all clocks and waves move the columns of groups' equations: sums into them and back.

A matrix of zeros and ones, one or two ones per row. NumPy alone does what most runs need of it:
SciPy, which takes a tenth of a second to import, is only for systems of thousands of clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.equations import Layout

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True)
class Columns:
    """A row per group: an offset per rank, a drift per rank, then the waves."""

    place: Ints
    """Of each column among all unknowns; `top`: it is not fitted."""
    ahead: Ints
    """Of what a rank is ahead of the clock that it shares, which moves the same ends as its offset:
    a column per rank."""
    top: int
    """How many clocks and waves there are."""

    @classmethod
    def of(cls, layout: Layout, ranks: Ints, waves: Ints) -> Columns:
        """Return the columns of groups of `ranks` (a row each) that `waves` move, all alike."""
        of_waves = np.broadcast_to(waves, (len(ranks), len(waves)))
        place = np.hstack([layout.offset[ranks], layout.drift[ranks], of_waves])
        return cls(
            np.minimum(place, layout.top), np.minimum(layout.gpu[ranks], layout.top), layout.top
        )

    def taken(self, values: Floats) -> Floats:
        """Return the values of unknowns, a row per unknown and one more, in these columns."""
        found = values[self.place]
        found[:, : self.ahead.shape[1]] += values[self.ahead]
        return np.asarray(found.reshape(-1, values.shape[1]))

    def spread(self, values: Floats) -> Floats:
        """Return sums over these columns, a row each, per unknown; the last is of all others."""
        count, size = self.place.shape[0], self.ahead.shape[1]
        every = values.reshape(count, -1, values.shape[1])
        result = np.empty((self.top + 1, values.shape[1]))
        for turn in range(values.shape[1]):
            of_all, of_ranks = every[:, :, turn].ravel(), every[:, :size, turn].ravel()
            result[:, turn] = np.bincount(self.place.ravel(), of_all, self.top + 1)
            result[:, turn] += np.bincount(self.ahead.ravel(), of_ranks, self.top + 1)
        return result

    def add_to(self, matrix: Floats, matrices: Floats) -> None:
        """Add each group's matrix of these columns to that of all unknowns and one more."""
        place = np.hstack([self.place, self.ahead])
        if (self.ahead == self.top).all():
            place = self.place
        columns = np.r_[: self.place.shape[1], : place.shape[1] - self.place.shape[1]]
        index = place[:, :, None] * len(matrix) + place[:, None, :]
        np.add.at(matrix.reshape(-1), index.ravel(), matrices[:, columns[:, None], columns].ravel())

    def as_sparse(self) -> csr_matrix:
        """Return the matrix of zeros and ones."""
        from scipy.sparse import csr_matrix

        count, wide = self.place.shape
        rows = wide * np.arange(count)[:, None] + np.r_[:wide, : self.ahead.shape[1]]
        place = np.hstack([self.place, self.ahead])
        shape = count * wide, self.top + 1
        return csr_matrix((np.ones(place.size), (rows.ravel(), place.ravel())), shape)
