"""The normal equations of a clock fit: where each unknown stands, what every cell adds, and their
solution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from traceweave.weave.calls import Flags, Floats, Ints
from traceweave.weave.cells import Cell

DENSE = 900
"""Unknowns above which the equations are solved as a full matrix."""
TILE = 48
TILE_ROWS = 100
"""Columns and rows of a product that OpenBLAS computes in one thread."""


@dataclass(frozen=True)
class Layout:
    """Where each unknown stands in the vector of all."""

    offset: Ints
    """Per rank; the last place of all is for what is not fitted."""
    drift: Ints
    clocks: int
    """How many places offsets take: the first ones."""
    slope: dict[tuple[int, int], int]
    own: dict[tuple[int, int, int], int]
    wave: dict[tuple[bool, int, int], int]
    size: int


def lay_out(cells: list[Cell], unit: Ints, fixed: Flags, drifting: Flags) -> Layout:
    """Give every unknown its place: clocks first, then lags."""
    free = np.unique(unit[~fixed])
    moving = np.unique(unit[~fixed & drifting])
    size = len(free) + len(moving)
    slope: dict[tuple[int, int], int] = {}
    own: dict[tuple[int, int, int], int] = {}
    wave: dict[tuple[bool, int, int], int] = {}
    for cell in cells:
        columns = len(cell.ranks)
        if cell.lag[:2] not in slope:
            slope[cell.lag[:2]] = size
            size += columns
        if cell.lag not in own:
            own[cell.lag] = size
            size += columns
        if cell.wave not in wave:
            wave[cell.wave] = size
            size += 1
    offset = np.where(fixed, size, np.searchsorted(free, unit))
    drift = np.where(fixed | ~drifting, size, len(free) + np.searchsorted(moving, unit))
    return Layout(offset, drift, len(free), slope, own, wave, size)


def equations(
    layout: Layout,
    cells: list[Cell],
    times: Sequence[Floats],
    rests: Sequence[Floats],
    waves: Sequence[Floats],
    weights: list[Floats],
    precision: Floats,
) -> tuple[Floats, Floats]:
    """Normal equations after eliminating every instance's common end, priors included."""
    normal, right = np.zeros((layout.size + 1,) * 2), np.zeros(layout.size + 1)
    for cell, at, rest, wave, weight in zip(cells, times, rests, waves, weights, strict=True):
        gram, vector = _of_cell(at, rest, wave, weight)
        _add(normal, right, _places(layout, cell), gram, vector)
    normal = normal[:-1, :-1]
    normal[np.diag_indices(layout.size)] += precision
    return normal, right[:-1]


def _of_cell(at: Floats, rest: Floats, wave: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """A cell's own equations: an offset and a drift per column, and the height of the wave."""
    columns = np.arange(rest.shape[1])
    rest = np.where(weight > 0, rest, 0.0)
    at = np.where(weight > 0, at, 0.0)
    total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    # what each unknown adds to the rest: an offset 1, a drift the time, a wave -wave
    weighted = np.hstack([weight, weight * at, -np.sum(weight * wave, axis=1, keepdims=True)])
    gram = -_gram(weighted / total, weighted)
    size = len(columns)
    one, time = np.diag_indices(size), (columns + size, columns + size)
    gram[one] += weight.sum(axis=0)
    gram[time] += np.sum(weight * at**2, axis=0)
    cross = np.sum(weight * at, axis=0)
    gram[columns, columns + size] += cross
    gram[columns + size, columns] += cross
    for first, factor in ((columns, 1.0), (columns + size, at)):
        shared = -np.sum(weight * factor * wave, axis=0)
        gram[first, -1] += shared
        gram[-1, first] += shared
    gram[-1, -1] += np.sum(weight * wave**2)
    mean = np.sum(weight * rest, axis=1, keepdims=True) / total
    pull = weight * (mean - rest)
    vector = np.concatenate([pull.sum(axis=0), (pull * at).sum(axis=0), [-np.sum(pull * wave)]])
    return gram, vector


def _places(layout: Layout, cell: Cell) -> tuple[Ints, Ints, Floats]:
    """Of everything that moves the cell's ends: the place of the unknown, the column of the cell's
    own equations, and the factor between them.
    """
    size = len(cell.ranks)
    columns = np.arange(size)
    places = (
        layout.offset[cell.ranks],
        layout.drift[cell.ranks],
        layout.slope[cell.lag[:2]] + columns,
        layout.own[cell.lag] + columns,
        np.array([layout.wave[cell.wave]]),
    )
    own = (columns, columns + size, columns, columns, np.array([2 * size]))
    factors = np.repeat([1.0, 1.0, -cell.transfer, -1.0, 1.0], [size, size, size, size, 1])
    return np.concatenate(places), np.concatenate(own), factors


def _add(
    normal: Floats,
    right: Floats,
    places: tuple[Ints, Ints, Floats],
    gram: Floats,
    vector: Floats,
) -> None:
    """Add a cell's equations to those of all; ranks of one clock meet in one place."""
    place, column, factor = places
    np.add.at(right, place, factor * vector[column])
    part = gram[np.ix_(column, column)] * factor * factor[:, None]
    np.add.at(normal, np.ix_(place, place), part)


class Factor:
    """The balanced equations, factored once for several right-hand sides.

    Lags leave most of the matrix empty, and SuperLU uses one thread: on a busy machine those of a
    dense Cholesky wait for each other, 106 ms for 300 unknowns against 13 ms. Large ones are worth
    it.
    """

    def __init__(self, normal: Floats) -> None:
        self.size = len(normal)
        self._balance = 1.0 / np.sqrt(np.maximum(normal.diagonal(), 1e-300))[:, None]
        if not self.size:
            return
        matrix = normal * self._balance * self._balance.T + 1e-10 * np.eye(self.size)
        self._solve: Callable[[Floats], Floats]
        if self.size > DENSE:
            factor = cho_factor(matrix, overwrite_a=True, check_finite=False)
            self._solve = partial(cho_solve, factor, check_finite=False)
        else:
            self._solve = splu(
                csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            ).solve  # fmt: skip

    def solve(self, right: Floats) -> Floats:
        """Return the unknowns, a column per column of `right`."""
        if not self.size:
            return right
        return np.asarray(self._balance * self._solve(self._balance * right))

    def standard_errors(self, count: int) -> Floats:
        """Return those of the first unknowns: weights are inverse variances, so the inverse holds
        them.
        """
        inverse = self.solve(np.eye(self.size, count))
        return np.sqrt(np.maximum(inverse.diagonal(), 0.0))


def _gram(left: Floats, right: Floats) -> Floats:
    """left.T @ right, in tiles that BLAS does not spread over threads.

    On a busy machine its threads wait for each other: 160 ms for 5000 x 129, against 50 ms in
    tiles.
    """
    columns = left.shape[1]
    full = len(left) // TILE_ROWS * TILE_ROWS
    product = np.zeros((columns, columns))
    a = left[:full].reshape(-1, TILE_ROWS, columns).transpose(0, 2, 1)
    b = right[:full].reshape(-1, TILE_ROWS, columns)
    for low in range(0, columns, TILE):
        for first in range(0, columns, TILE):
            rows, others = slice(low, low + TILE), slice(first, first + TILE)
            product[rows, others] = left[full:, rows].T @ right[full:, others]
            if full:
                product[rows, others] += np.matmul(a[:, rows], b[:, :, others]).sum(axis=0)
    return product
