"""Lags of a group of more ranks than instances eliminated rank by rank, beside the instances'
common ends.

Given those ends, ranks have nothing to do with each other: each has a few unknowns of its own, and
an instance's end is one unknown more. So a matrix over instances takes the place of that over
ranks: the cost is ranks x instances², not ranks³.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from traceweave.arrays import Floats, Ints
from traceweave.clocks.columns import Columns
from traceweave.clocks.dense_groups import RIDGE
from traceweave.clocks.equations import WAVES, Layout, Part


def thin_groups(layout: Layout, parts: Sequence[Part], precision: Floats) -> list[ThinGroup]:
    """Return the equations of every group that the cells are of."""
    blocks = np.unique(np.concatenate([part.cell.blocks for part in parts]))
    found: dict[int, list[tuple[Part, int]]] = {block: [] for block in blocks.tolist()}
    for part in parts:
        for group, block in enumerate(part.cell.blocks.tolist()):
            found[block].append((part, group))
    return [ThinGroup(layout, slices, precision) for slices in found.values()]


class _Slice:
    """One cell's instances of the group, and what they say of each rank (columns)."""

    def __init__(self, layout: Layout, part: Part, group: int, precision: Floats) -> None:
        cell = part.cell
        rows = slice(*np.searchsorted(cell.group, [group, group + 1]))
        self.weight, self.at = part.weight[rows], part.at[rows]
        self.wave = -part.wave[rows]
        self.growth = cell.excess[rows, None]
        self.transfer = float(cell.transfer[group])
        self.places = layout.owns(cell)[group]
        self.waves = layout.wave[cell.number] + np.arange(WAVES)
        total = self.weight.sum(axis=0)
        prior = precision[self.places]
        self.precision = (total + prior) * (1 + RIDGE)
        self.total = total
        self.left = prior / self.precision
        """Share of a slope's pull that the cell's own lags leave."""

    @property
    def moves(self) -> list[Floats]:
        """What an offset, a drift, the wave's height and its growth add to every end."""
        return [np.ones_like(self.at), self.at, self.wave, self.wave * self.growth]


class ThinGroup:
    """The equations of one group, without its lags: `matrices` per rank (offset, drift, two
    unknowns per wave), less what instances' ends take, whose root is `thin`.
    """

    def __init__(
        self, layout: Layout, slices: Sequence[tuple[Part, int]], precision: Floats
    ) -> None:
        part, group = slices[0]
        ranks = part.cell.ranks[group]
        self._slopes = layout.slope[part.cell.blocks[group]] + np.arange(len(ranks))
        self._cells = [_Slice(layout, part, group, precision) for part, group in slices]
        waves = np.concatenate([cell.waves for cell in self._cells])
        self._ranks = len(ranks)
        self._width = 2 + len(waves)
        self.where = Columns.of(layout, ranks[:, None], waves)
        steep = sum(cell.transfer**2 * cell.total * cell.left for cell in self._cells)
        self._slope = (precision[self._slopes] + steep) * (1 + RIDGE)
        self._said, self._pull = self._moments()
        self.matrices = self._per_rank()
        self._of_ends()

    def _columns(self, turn: int) -> Ints:
        """Where a cell's unknowns stand among those of a rank."""
        return np.asarray(np.r_[0, 1, 2 + WAVES * turn + np.arange(WAVES)])

    def _moments(self) -> tuple[list[Floats], Floats]:
        """Per cell, what each rank's ends say of lags and, in turns, of every other unknown; and
        how these pull at the slope."""
        said, pull = [], np.zeros((self._width, self._ranks))
        for turn, cell in enumerate(self._cells):
            of_cell = np.zeros_like(pull)
            for column, move in zip(self._columns(turn), cell.moves, strict=True):
                of_cell[column] = np.einsum("ki,ki->i", cell.weight, move)
            said.append(of_cell)
            pull += cell.transfer * cell.left * of_cell
        return said, pull

    def _per_rank(self) -> Floats:
        result: Floats = -np.asarray(np.einsum("fi,gi->ifg", self._pull, self._pull / self._slope))
        for turn, (cell, said) in enumerate(zip(self._cells, self._said, strict=True)):
            columns, moves = self._columns(turn), cell.moves
            result -= np.einsum("fi,gi->ifg", said, said / cell.precision)
            for f, first in zip(columns, moves, strict=True):
                for g, second in zip(columns, moves, strict=True):
                    result[:, f, g] += np.einsum("ki,ki,ki->i", cell.weight, first, second)
        return result

    def _of_ends(self) -> None:
        """The equations of the instances' ends, and how they hang together with clocks."""
        own = [cell.weight / np.sqrt(cell.precision) for cell in self._cells]
        steep = np.vstack([self._steep(cell) * cell.weight for cell in self._cells])
        matrix = -(steep / self._slope) @ steep.T
        coupling = np.zeros((len(steep), self._ranks, self._width))
        first = 0
        for turn, (cell, root, said) in enumerate(zip(self._cells, own, self._said, strict=True)):
            rows = slice(first, first + len(root))
            matrix[rows, rows] += np.diag(cell.weight.sum(axis=1)) - root @ root.T
            columns, moves = self._columns(turn), cell.moves
            for column, move in zip(columns, moves, strict=True):
                coupling[rows, :, column] -= cell.weight * (move - said[column] / cell.precision)
            first += len(root)
        coupling += (steep / self._slope)[:, :, None] * self._pull.T
        matrix[np.diag_indices(len(matrix))] *= 1 + RIDGE
        self._ends = cholesky(matrix, lower=True, check_finite=False)
        self.thin = solve_triangular(
            self._ends, coupling.reshape(len(steep), -1), lower=True, check_finite=False
        )
        """What ends take from the equations of all ranks is thin.T @ thin."""

    def _steep(self, cell: _Slice) -> Floats:
        return np.asarray(cell.transfer * cell.left)

    def _taken_from_ends(self, answer: Floats) -> Floats:
        """What lags take from the right-hand side of the instances' ends."""
        slope = answer[self._slopes] / self._slope[:, None]
        return np.vstack(
            [
                cell.weight
                @ (
                    answer[cell.places] / cell.precision[:, None]
                    + self._steep(cell)[:, None] * slope
                )
                for cell in self._cells
            ]
        )

    def forward(self, answer: Floats) -> Floats:
        """Return what lags take from the right-hand side of clocks and waves, in the columns of
        `where`; the slopes' own in `answer` is brought to what is left of it.
        """
        for cell in self._cells:
            share = (cell.transfer * cell.total / cell.precision)[:, None]
            answer[self._slopes] -= share * answer[cell.places]
        slope = answer[self._slopes] / self._slope[:, None]
        taken = -self._pull.T[:, :, None] * slope[:, None, :]
        for cell, said in zip(self._cells, self._said, strict=True):
            own = answer[cell.places] / cell.precision[:, None]
            taken -= said.T[:, :, None] * own[:, None, :]
        ends = solve_triangular(
            self._ends, self._taken_from_ends(answer), lower=True, check_finite=False
        )
        return np.asarray(taken.reshape(-1, answer.shape[1]) - self.thin.T @ ends)

    def back(self, answer: Floats, top: Floats) -> None:
        """Fill in the lags in `answer`, clocks and waves in the columns of `where` known."""
        through = self._taken_from_ends(answer)
        moved = solve_triangular(self._ends, through, lower=True, check_finite=False)
        ends = -solve_triangular(
            self._ends, moved + self.thin @ top, lower=True, trans="T", check_finite=False
        )
        by_rank = top.reshape(self._ranks, self._width, -1)
        slope = answer[self._slopes] + np.einsum("fi,ifr->ir", self._pull, by_rank)
        first = 0
        pulled = []
        for cell in self._cells:
            pulled.append(cell.weight.T @ ends[first : first + len(cell.weight)])
            slope -= self._steep(cell)[:, None] * pulled[-1]
            first += len(cell.weight)
        slope /= self._slope[:, None]
        answer[self._slopes] = slope
        for cell, said, pull in zip(self._cells, self._said, pulled, strict=True):
            own = answer[cell.places] + np.einsum("fi,ifr->ir", said, by_rank) - pull
            own -= (cell.transfer * cell.total)[:, None] * slope
            answer[cell.places] = own / cell.precision[:, None]
