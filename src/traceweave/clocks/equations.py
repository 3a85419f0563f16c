"""The normal equations of a clock fit: where each unknown stands, what every cell adds, and their
solution.

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

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.transfer_classes import Cell

WAVES = 2
"""Unknowns of a wave: its height, and how it grows from instance to instance with the transfer."""
TILE = 48
TILE_ROWS = 100
"""Columns and rows of a product that OpenBLAS computes in one thread."""
MANY = 400
"""Columns from which on its threads are worth the wait."""


@dataclass(frozen=True)
class Layout:
    """Where each unknown stands in the vector of all: clocks, then waves, then lags."""

    offset: Ints
    """Per rank; the last place of all is for what is not fitted."""
    drift: Ints
    clocks: int
    """How many places offsets take: the first ones."""
    wave: dict[tuple[bool, int, int], int]
    top: int
    """How many places clocks and waves take."""
    slope: dict[int, int]
    """Per block: first place, one per rank."""
    own: list[int]
    """Per cell: first place, one per rank."""
    size: int


def lay_out(cells: list[Cell], unit: Ints, fixed: Flags, drifting: Flags) -> Layout:
    """Give every unknown its place."""
    free = np.unique(unit[~fixed])
    moving = np.unique(unit[~fixed & drifting])
    top = len(free) + len(moving)
    wave: dict[tuple[bool, int, int], int] = {}
    for cell in cells:
        if cell.wave not in wave:
            wave[cell.wave] = top
            top += WAVES
    size = top
    slope: dict[int, int] = {}
    own: list[int] = []
    for cell in cells:
        columns = len(cell.ranks)
        if cell.block not in slope:
            slope[cell.block] = size
            size += columns
        own.append(size)
        size += columns
    offset = np.where(fixed, size, np.searchsorted(free, unit))
    drift = np.where(fixed | ~drifting, size, len(free) + np.searchsorted(moving, unit))
    return Layout(offset, drift, len(free), wave, top, slope, own, size)


@dataclass(frozen=True)
class Part:
    """A cell's own equations, its instances' common ends eliminated.

    Columns: an offset per rank, a drift per rank, the height of the wave and its growth.
    """

    gram: Floats
    vector: Floats


def equations_of(cell: Cell, at: Floats, rest: Floats, wave: Floats, weight: Floats) -> Part:
    """Return what the ends of a cell say of everything that moves them.

    `at`: times from the middle, in units of the drift's; `rest`: ends as they are now, NaN if
    absent; `wave`: its shape.
    """
    columns = np.arange(rest.shape[1])
    size = len(columns)
    rest = np.where(weight > 0, rest, 0.0)
    at = np.where(weight > 0, at, 0.0)
    growth = cell.excess[:, None]
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    timed, waved = weight * at, weight * wave
    # what each unknown adds to the rest: an offset 1, a drift the time, a wave -wave
    height = -waved.sum(axis=1, keepdims=True)
    weighted = np.hstack([weight, timed, height, height * growth])
    gram = -tiled(weighted / total, weighted)
    one, time = np.diag_indices(size), (columns + size, columns + size)
    gram[one] += weight.sum(axis=0)
    gram[time] += np.einsum("ki,ki->i", timed, at)
    cross = timed.sum(axis=0)
    gram[columns, columns + size] += cross
    gram[columns + size, columns] += cross
    powers = np.hstack([np.ones_like(growth), growth])
    shared = np.vstack([waved.T @ powers, (waved * at).T @ powers])
    gram[: 2 * size, 2 * size :] -= shared
    gram[2 * size :, : 2 * size] -= shared.T
    squares = np.einsum("ki,ki->k", waved, wave)[:, None]
    gram[2 * size :, 2 * size :] += (powers * squares).T @ powers
    pull = weight * (np.sum(weight * rest, axis=1, keepdims=True) / total - rest)
    crest = -np.einsum("ki,ki->k", pull, wave) @ powers
    vector = np.concatenate([pull.sum(axis=0), np.einsum("ki,ki->i", pull, at), crest])
    return Part(gram, vector)


def right_side(layout: Layout, cells: list[Cell], parts: Sequence[Part]) -> Floats:
    """Return the right-hand side of all equations, priors not included; one value per unknown."""
    right = np.zeros(layout.size + 1)
    for cell, part, own in zip(cells, parts, layout.own, strict=True):
        size = len(cell.ranks)
        of_offset, of_drift = part.vector[:size], part.vector[size : 2 * size]
        np.add.at(right, layout.offset[cell.ranks], of_offset)
        np.add.at(right, layout.drift[cell.ranks], of_drift)
        wave = layout.wave[cell.wave]
        right[wave : wave + WAVES] += part.vector[2 * size :]
        slope = layout.slope[cell.block]
        right[slope : slope + size] -= cell.transfer * of_offset
        right[own : own + size] = -of_offset
    return right[:-1]


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
    top: Ints
    """Places of the block's clocks and waves."""


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
        top = np.concatenate([layout.offset[ranks], layout.drift[ranks], *waves])
        top = np.minimum(top, layout.top)
        _scatter(normal, top, slope.reduced(outer))
        return _Lags(numbers, inside, slope, top)

    def solve(self, right: Floats) -> Floats:
        """Return the unknowns, a column per column of `right`."""
        layout = self._layout
        answer = np.array(right)
        top = np.vstack([answer[: layout.top], np.zeros((1, answer.shape[1]))])
        for block in self._blocks:
            np.add.at(top, block.top, -self._forward(block, answer))
        top[:-1] = cho_solve(self._top, top[:-1], check_finite=False)
        top[-1] = 0.0
        answer[: layout.top] = top[:-1]
        for block in self._blocks:
            self._back(block, answer, top[block.top])
        return answer

    def _forward(self, block: _Lags, answer: Floats) -> Floats:
        """What a block's lags take from the right-hand side of its clocks and waves; their own
        right-hand sides in `answer` are brought to what is left of them.
        """
        first = self._cells[block.cells[0]]
        size = len(first.ranks)
        slope = slice(self._layout.slope[first.block], self._layout.slope[first.block] + size)
        taken = np.zeros((len(block.top), answer.shape[1]))
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


def _scatter(normal: Floats, place: Ints, part: Floats) -> None:
    """Add equations to those of all; ranks of one clock meet in one place."""
    if len(np.unique(place)) == len(place):
        normal[np.ix_(place, place)] += part
        return
    columns = np.arange(len(place))
    shape = (len(place), len(normal))
    where = csr_matrix((np.ones(len(place)), (columns, place)), shape)
    normal += np.asarray(where.T @ np.asarray(where.T @ part.T).T)


def tiled(left: Floats, right: Floats) -> Floats:
    """Return left.T @ right, in tiles that BLAS does not spread over threads.

    On a busy machine its threads wait for each other: 160 ms for 5000 x 129, against 50 ms in
    tiles.
    """
    if left.shape[1] > MANY:
        return np.asarray(left.T @ right)
    full = len(left) // TILE_ROWS * TILE_ROWS
    product = np.zeros((left.shape[1], right.shape[1]))
    a = left[:full].reshape(-1, TILE_ROWS, left.shape[1]).transpose(0, 2, 1)
    b = right[:full].reshape(-1, TILE_ROWS, right.shape[1])
    for low in range(0, left.shape[1], TILE):
        for first in range(0, right.shape[1], TILE):
            rows, others = slice(low, low + TILE), slice(first, first + TILE)
            product[rows, others] = left[full:, rows].T @ right[full:, others]
            if full:
                product[rows, others] += np.matmul(a[:, rows], b[:, :, others]).sum(axis=0)
    return product
