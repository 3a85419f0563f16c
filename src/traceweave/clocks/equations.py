"""The normal equations of a clock fit: where each unknown stands, and what every cell adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
    gpu: Ints
    """Per rank: what its timestamps are ahead of the clock that it shares."""
    wave: dict[tuple[bool, int, int], int]
    top: int
    """How many places clocks and waves take."""
    slope: dict[int, int]
    """Per block: first place, one per rank."""
    own: list[int]
    """Per cell: first place, one per rank."""
    size: int


def lay_out(
    cells: list[Cell], unit: Ints, fixed: Flags, drifting: Flags, sharing: Flags | None = None
) -> Layout:
    """Give every unknown its place; ranks `sharing` a clock are a little apart from it."""
    free = np.unique(unit[~fixed])
    moving = np.unique(unit[~fixed & drifting])
    sharing = np.zeros(len(unit), dtype=np.bool_) if sharing is None else sharing
    first = len(free) + len(moving)
    top = first + int(sharing.sum())
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
    gpu = np.where(sharing, first + np.cumsum(sharing) - 1, size)
    return Layout(offset, drift, len(free), gpu, wave, top, slope, own, size)


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
        np.add.at(right, layout.gpu[cell.ranks], of_offset)
        np.add.at(right, layout.drift[cell.ranks], of_drift)
        wave = layout.wave[cell.wave]
        right[wave : wave + WAVES] += part.vector[2 * size :]
        slope = layout.slope[cell.block]
        right[slope : slope + size] -= cell.transfer * of_offset
        right[own : own + size] = -of_offset
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
