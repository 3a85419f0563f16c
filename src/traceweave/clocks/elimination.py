"""The equations of a clock fit solved: lags first, each where it belongs, then clocks and waves.

Lags belong to one block or one cell, so they are eliminated there, from the inside out; what is
left has two unknowns per clock. The cost is that of ranks³ for the largest group, not of all
unknowns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_matrix

from traceweave.arrays import Floats
from traceweave.clocks.equations import WAVES, Layout, Part, tiled
from traceweave.clocks.transfer_classes import Cell


class _Inner:
    """Unknowns eliminated from a few others."""

    def __init__(self, matrix: Floats, coupling: Floats) -> None:
        matrix[np.diag_indices(len(matrix))] *= 1 + 1e-10
        self._factor = cho_factor(matrix, check_finite=False)
        self.coupling = coupling
        self._through = self.solve(coupling)

    def solve(self, right: Floats) -> Floats:
        return np.asarray(cho_solve(self._factor, right, check_finite=False))

    def reduced(self, outer: Floats) -> Floats:
        """Return the others' equations without these unknowns."""
        return np.asarray(outer - tiled(self.coupling, self._through))

    def forward(self, right: Floats) -> Floats:
        """Return what has to be taken from the others' right-hand side."""
        return tiled(self._through, right)

    def back(self, right: Floats, others: Floats) -> Floats:
        """Return these unknowns where the others are known."""
        return np.asarray(self.solve(right) - self._through @ others)


@dataclass(frozen=True)
class _Lags:
    """The lags of one block: those of its cells inside, those that grow with the transfer around
    them.
    """

    cells: list[int]
    own: list[_Inner]
    slope: _Inner
    where: csr_matrix
    """Which of all clocks and waves move each of the block's; the last column is for what is not
    fitted."""


class Elimination:
    """The equations factored once, for several right-hand sides."""

    def __init__(
        self, layout: Layout, cells: list[Cell], parts: Sequence[Part], precision: Floats
    ) -> None:
        self.size = layout.size
        self._layout, self._cells = layout, cells
        normal = np.zeros((layout.top + 1,) * 2)
        self._blocks = []
        for _, numbers in groupby(range(len(cells)), key=lambda n: cells[n].block):
            self._blocks.append(self._eliminate(list(numbers), parts, precision, normal))
        normal = normal[:-1, :-1]
        normal[np.diag_indices(layout.top)] += precision[: layout.top]
        normal[np.diag_indices(layout.top)] *= 1 + 1e-10
        self._top = cho_factor(normal, overwrite_a=True, check_finite=False)

    def _eliminate(
        self, numbers: list[int], parts: Sequence[Part], precision: Floats, normal: Floats
    ) -> _Lags:
        layout, cells = self._layout, [self._cells[n] for n in numbers]
        size = len(cells[0].ranks)
        outer = np.zeros((2 * size + WAVES * len(cells),) * 2)
        coupling = np.zeros((size, len(outer)))
        matrix = np.zeros((size, size))
        inside = []
        for turn, (number, cell) in enumerate(zip(numbers, cells, strict=True)):
            gram = parts[number].gram
            prior = precision[layout.own[number] :][:size]
            own = _Inner(gram[:size, :size] + np.diag(prior), -gram[:size])
            inside.append(own)
            left = own.reduced(gram)
            place = np.r_[: 2 * size, 2 * size + WAVES * turn + np.arange(WAVES)]
            outer[np.ix_(place, place)] += left
            coupling[:, place] -= cell.transfer * left[:size]
            matrix += cell.transfer**2 * left[:size, :size]
        prior = precision[layout.slope[cells[0].block] :][:size]
        slope = _Inner(matrix + np.diag(prior), coupling)
        waves = [layout.wave[cell.wave] + np.arange(WAVES) for cell in cells]
        ranks = cells[0].ranks
        top = np.concatenate([layout.offset[ranks], layout.drift[ranks], *waves, layout.gpu[ranks]])
        columns = np.r_[: len(outer), :size]
        shape = (len(outer), layout.top + 1)
        where = csr_matrix((np.ones(len(top)), (columns, np.minimum(top, layout.top))), shape)
        normal += np.asarray(where.T @ np.asarray(where.T @ slope.reduced(outer)).T)
        return _Lags(numbers, inside, slope, where)

    def solve(self, right: Floats) -> Floats:
        """Return the unknowns, a column per column of `right`."""
        layout = self._layout
        answer = np.array(right)
        top = np.vstack([answer[: layout.top], np.zeros((1, answer.shape[1]))])
        for block in self._blocks:
            top -= block.where.T @ self._forward(block, answer)
        top[:-1] = cho_solve(self._top, top[:-1], check_finite=False)
        top[-1] = 0.0
        answer[: layout.top] = top[:-1]
        for block in self._blocks:
            self._back(block, answer, block.where @ top)
        return answer

    def _forward(self, block: _Lags, answer: Floats) -> Floats:
        """What a block's lags take from the right-hand side of its clocks and waves; their own
        right-hand sides in `answer` are brought to what is left of them.
        """
        first = self._cells[block.cells[0]]
        size = len(first.ranks)
        slope = slice(self._layout.slope[first.block], self._layout.slope[first.block] + size)
        taken = np.zeros((block.where.shape[0], answer.shape[1]))
        for turn, (number, own) in enumerate(zip(block.cells, block.own, strict=True)):
            place = slice(self._layout.own[number], self._layout.own[number] + size)
            found = own.forward(answer[place])
            taken[: 2 * size] += found[: 2 * size]
            taken[2 * size + WAVES * turn :][:WAVES] += found[2 * size :]
            # a slope moves ends as -transfer offsets do
            answer[slope] += self._cells[number].transfer * found[:size]
        return taken + block.slope.forward(answer[slope])

    def _back(self, block: _Lags, answer: Floats, top: Floats) -> None:
        """Fill in a block's lags in `answer`, its clocks and waves being known."""
        first = self._cells[block.cells[0]]
        size = len(first.ranks)
        slope = slice(self._layout.slope[first.block], self._layout.slope[first.block] + size)
        answer[slope] = block.slope.back(answer[slope], top)
        for turn, (number, own) in enumerate(zip(block.cells, block.own, strict=True)):
            others = np.r_[top[: 2 * size], top[2 * size + WAVES * turn :][:WAVES]]
            others[:size] -= self._cells[number].transfer * answer[slope]
            place = slice(self._layout.own[number], self._layout.own[number] + size)
            answer[place] = own.back(answer[place], others)

    def standard_errors(self, count: int) -> Floats:
        """Return those of the first unknowns: weights are inverse variances, so the inverse holds
        them.
        """
        inverse = cho_solve(self._top, np.eye(self._layout.top, count), check_finite=False)
        return np.sqrt(np.maximum(inverse.diagonal(), 0.0))
