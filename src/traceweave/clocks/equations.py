"""The normal equations of a clock fit: where each unknown stands, and what every cell adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.clusters import cluster_clocks
from traceweave.clocks.transfer_classes import Cell

WAVES = 2
"""Unknowns of a wave: its height, and how it grows from instance to instance with the transfer."""
TILE = 48
TILE_ROWS = 100
"""Columns and rows of a product that OpenBLAS computes in one thread."""
SMALL = 32
"""Ranks of groups that are computed together."""
MANY = 400
"""Columns from which on its threads are worth the wait."""


@dataclass(frozen=True)
class Layout:
    """Where each unknown stands in the vector of all: clocks, then waves, then lags."""

    offset: Ints
    """Per rank; the last place of all is for what is not fitted."""
    drift: Ints
    gpu: Ints
    """Per rank: what its timestamps are ahead of the clock that it shares."""
    wave: list[int]
    """Per cell."""
    top: int
    """How many places clocks and waves take."""
    clocks: tuple[int, int]
    """How many places offsets take, and how many offsets and drifts: the first ones."""
    cluster: Ints
    """Per place of clocks and waves: which of them hang together most; -1 for waves."""
    slope: Ints
    """Per block: first place, one per rank."""
    own: list[int]
    """Per cell: first place, one per group and rank."""
    size: int

    def slopes(self, cell: Cell) -> Ints:
        """Return the places of the slopes of a cell's groups, a row each."""
        return np.asarray(self.slope[cell.blocks][:, None] + np.arange(cell.ranks.shape[1]))

    def owns(self, cell: Cell) -> Ints:
        """Return the places of the lags of a cell alone, a row per group."""
        return self.own[cell.number] + np.arange(cell.ranks.size).reshape(cell.ranks.shape)


def lay_out(
    cells: list[Cell], unit: Ints, fixed: Flags, drifting: Flags, sharing: Flags | None = None
) -> Layout:
    """Give every unknown its place; ranks `sharing` a clock are a little apart from it."""
    free = np.unique(unit[~fixed])
    moving = np.unique(unit[~fixed & drifting])
    sharing = np.zeros(len(unit), dtype=np.bool_) if sharing is None else sharing
    first = len(free) + len(moving)
    top = first + int(sharing.sum()) + WAVES * len(cells)
    wave = [top - WAVES * (len(cells) - number) for number in range(len(cells))]
    size = top
    slope = np.full(max((int(cell.blocks.max()) for cell in cells), default=-1) + 1, -1)
    own: list[int] = []
    for cell in cells:
        new = cell.blocks[slope[cell.blocks] < 0]
        slope[new] = size + cell.ranks.shape[1] * np.arange(len(new))
        size += cell.ranks.shape[1] * len(new)
        own.append(size)
        size += cell.ranks.size
    offset = np.where(fixed, size, np.searchsorted(free, unit))
    drift = np.where(fixed | ~drifting, size, len(free) + np.searchsorted(moving, unit))
    gpu = np.where(sharing, first + np.cumsum(sharing) - 1, size)
    cluster = np.full(top, -1)
    of_unit = _clusters(cells, unit)
    cluster[: len(free)] = of_unit[free]
    cluster[len(free) : first] = of_unit[moving]
    cluster[first : first + int(sharing.sum())] = of_unit[unit[sharing]]
    clocks = len(free), first
    return Layout(offset, drift, gpu, wave, top, clocks, cluster, slope, own, size)


def _clusters(cells: list[Cell], unit: Ints) -> Ints:
    """The cluster of every clock."""
    groups = sorted(
        (np.unique(unit[ranks]) for cell in cells if cell.ranks.shape[1] <= SMALL
         for ranks in cell.ranks), key=len,
    )  # fmt: skip
    return cluster_clocks(groups, int(unit.max()) + 1)


@dataclass(frozen=True)
class Part:
    """What the ends of a cell say of everything that moves them; arrays have a value per row and
    column of the cell, 0 where absent.

    An offset adds 1 to the rest, a drift the time, a wave -wave.
    """

    cell: Cell
    at: Floats
    """Times from the middle, in units of the drift's."""
    wave: Floats
    weight: Floats
    vector: Floats
    """Per group, the right-hand side of its offsets, its drifts, the height of the wave and its
    growth, common ends eliminated."""

    def grams(self) -> Floats:
        """Return each group's own equations, its instances' common ends eliminated.

        Columns: an offset per rank, a drift per rank, the height of the wave and its growth.
        """
        cell, weight, wave = self.cell, self.weight, self.wave
        size, borders = weight.shape[1], cell.borders[:-1]
        growth = cell.excess[:, None]
        powers = np.hstack([np.ones_like(growth), growth])
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        timed, waved = weight * self.at, weight * wave
        heights = -waved.sum(axis=1, keepdims=True) * powers
        weighted = np.hstack([weight, timed, heights])
        grams = -_products(weighted / total, weighted, cell)
        columns, waves = np.arange(size), slice(2 * size, None)
        grams[:, columns, columns] += np.add.reduceat(weight, borders)
        grams[:, columns + size, columns + size] += np.add.reduceat(timed * self.at, borders)
        cross = np.add.reduceat(timed, borders)
        grams[:, columns, columns + size] += cross
        grams[:, columns + size, columns] += cross
        moved = np.hstack([waved, waved * self.at])[:, :, None] * powers[:, None, :]
        shared = np.add.reduceat(moved, borders)
        grams[:, : 2 * size, waves] -= shared
        grams[:, waves, : 2 * size] -= shared.transpose(0, 2, 1)
        squares = np.einsum("ki,ki->k", waved, wave)[:, None]
        grams[:, waves, waves] += _products(powers * squares, powers, cell)
        return grams


def equations_of(cell: Cell, at: Floats, rest: Floats, wave: Floats, weight: Floats) -> Part:
    """Return what the ends of a cell say of everything that moves them.

    `rest`: ends as they are now, NaN if absent.
    """
    rest = np.where(weight > 0, rest, 0.0)
    at = np.where(weight > 0, at, 0.0)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    pull = weight * (np.sum(weight * rest, axis=1, keepdims=True) / total - rest)
    crest = -np.einsum("ki,ki->k", pull, wave)[:, None]
    rows = np.hstack([pull, pull * at, crest, crest * cell.excess[:, None]])
    return Part(cell, at, wave, weight, np.add.reduceat(rows, cell.borders[:-1], axis=0))


def _products(left: Floats, right: Floats, cell: Cell) -> Floats:
    """Return left.T @ right of the rows of every group; small groups side by side."""
    borders = cell.borders
    if len(cell.blocks) == 1 or cell.ranks.shape[1] > SMALL:
        return np.array([tiled(left[i:j], right[i:j]) for i, j in pairwise(borders.tolist())])
    count = np.diff(borders)
    rows = borders[:-1, None] + np.arange(int(count.max()))
    absent = np.arange(rows.shape[1]) >= count[:, None]
    rows[absent] = 0
    near = left[rows]
    near[absent] = 0.0
    return np.asarray(np.matmul(near.transpose(0, 2, 1), right[rows]))


def right_side(layout: Layout, parts: Sequence[Part]) -> Floats:
    """Return the right-hand side of all equations, priors not included; one value per unknown."""
    right = np.zeros(layout.size + 1)
    for part in parts:
        cell = part.cell
        size = cell.ranks.shape[1]
        of_offset, of_drift = part.vector[:, :size], part.vector[:, size : 2 * size]
        np.add.at(right, layout.offset[cell.ranks], of_offset)
        np.add.at(right, layout.gpu[cell.ranks], of_offset)
        np.add.at(right, layout.drift[cell.ranks], of_drift)
        wave = layout.wave[cell.number]
        right[wave : wave + WAVES] += part.vector[:, 2 * size :].sum(axis=0)
        right[layout.slopes(cell)] -= cell.transfer[:, None] * of_offset
        right[layout.owns(cell)] = -of_offset
    return right[:-1]


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
