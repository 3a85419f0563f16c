"""Lags of groups of one size eliminated from matrices over all ranks of a group: the cost is that
of ranks³ for every group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.columns import Columns
from traceweave.clocks.equations import WAVES, Layout, Part

RIDGE = 1e-10
"""Share of the diagonal added to it, so that rounding leaves matrices positive."""


class DenseGroups:
    """The equations of groups of one size, without their lags.

    Columns of a group: an offset per rank, a drift per rank, two unknowns per wave.
    """

    where: Columns
    matrices: Floats
    thin: Floats | None = None

    def __init__(self, layout: Layout, parts: Sequence[Part], precision: Floats) -> None:
        cells = self._cells = [part.cell for part in parts]
        blocks = np.unique(np.concatenate([cell.blocks for cell in cells]))
        ranks = np.zeros((len(blocks), cells[0].ranks.shape[1]), dtype=np.int64)
        count, size = ranks.shape
        wide = 2 * size + WAVES * len(cells)
        outer, coupling = np.zeros((count, wide, wide)), np.zeros((count, size, wide))
        matrix = np.zeros((count, size, size))
        self._places = [np.searchsorted(blocks, cell.blocks) for cell in cells]
        self._owns = [layout.owns(cell) for cell in cells]
        self._slopes = layout.slope[blocks][:, None] + np.arange(size)
        self._columns = [
            np.r_[: 2 * size, 2 * size + WAVES * turn + np.arange(WAVES)]
            for turn in range(len(cells))
        ]
        self._own: list[_Inner] = []
        for turn, part in enumerate(parts):
            cell, place, columns = cells[turn], self._places[turn], self._columns[turn]
            ranks[place] = cell.ranks
            gram = part.grams()
            own = _Inner(gram[:, :size, :size], -gram[:, :size], precision[self._owns[turn]])
            left = gram - own.taken
            transfer = cell.transfer[:, None, None]
            outer[np.ix_(place, columns, columns)] += left
            coupling[np.ix_(place, np.arange(size), columns)] -= transfer * left[:, :size]
            matrix[place] += transfer**2 * left[:, :size, :size]
            self._own.append(own)
        self._slope = _Inner(matrix, coupling, precision[self._slopes])
        self.matrices = outer - self._slope.taken
        self._transfer = [cell.transfer[:, None, None] for cell in cells]
        self._size = size
        waves = np.concatenate([layout.wave[c.number] + np.arange(WAVES) for c in cells])
        self.where = Columns.of(layout, ranks, waves)

    def forward(self, answer: Floats) -> Floats:
        """Return what lags take from the right-hand side of clocks and waves, in the columns of
        the groups; their own right-hand sides in `answer` are brought to what is left of them.
        """
        size = self._size
        taken = np.zeros((*self.matrices.shape[:2], answer.shape[1]))
        for turn, own in enumerate(self._own):
            found = own.forward(answer[self._owns[turn]])
            taken[np.ix_(self._places[turn], self._columns[turn])] += found
            # a slope moves ends as -transfer offsets do
            slopes = self._slopes[self._places[turn]]
            answer[slopes] += self._transfer[turn] * found[:, :size]
        taken += self._slope.forward(answer[self._slopes])
        return taken.reshape(-1, answer.shape[1])

    def back(self, answer: Floats, top: Floats) -> None:
        """Fill in the lags in `answer`, clocks and waves in the columns of the groups known."""
        size = self._size
        top = top.reshape(*self.matrices.shape[:2], -1)
        answer[self._slopes] = self._slope.back(answer[self._slopes], top)
        for turn, own in enumerate(self._own):
            others = top[np.ix_(self._places[turn], self._columns[turn])]
            slopes = self._slopes[self._places[turn]]
            others[:, :size] -= self._transfer[turn] * answer[slopes]
            answer[self._owns[turn]] = own.back(answer[self._owns[turn]], others)


class _Inner:
    """Unknowns of every group eliminated from a few others."""

    def __init__(self, matrix: Floats, coupling: Floats, prior: Floats) -> None:
        diagonal = np.arange(matrix.shape[1])
        matrix = matrix.copy()
        matrix[:, diagonal, diagonal] += prior
        matrix[:, diagonal, diagonal] *= 1 + RIDGE
        self._inverse = np.linalg.inv(matrix)
        self._through = np.matmul(self._inverse, coupling)
        self.taken = np.matmul(coupling.transpose(0, 2, 1), self._through)
        """What the others' equations lose."""

    def forward(self, right: Floats) -> Floats:
        """Return what has to be taken from the others' right-hand side."""
        return np.asarray(np.matmul(self._through.transpose(0, 2, 1), right))

    def back(self, right: Floats, others: Floats) -> Floats:
        """Return these unknowns where the others are known."""
        return np.asarray(np.matmul(self._inverse, right) - np.matmul(self._through, others))
