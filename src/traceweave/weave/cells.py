"""What a fit sees of the collectives: cells of instances that are alike, and how a ring lets its
ranks go.

A cell holds the instances of one group whose transfers took about equally long. Its ends scatter
alike and lag alike, so it has one noise and, per rank, one lag.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.weave.anchors import Block
from traceweave.weave.calls import Floats, Ints

CLASSES_PER_OCTAVE = 1


@dataclass(frozen=True)
class Cell:
    """Instances (rows) of one block and one class of transfer time over its ranks (columns)."""

    block: int
    rows: Ints
    """Which rows of the block."""
    ranks: Ints
    start: Floats
    end: Floats
    transfer: float
    """Median of the instances' shortest durations, ns."""
    proves: bool
    pairwise: bool
    """Send with recv: a row has two ranks."""
    lag: tuple[int, int, int]
    """Cells with one value share the lags of their ranks: group, sort of evidence, class."""
    wave: tuple[bool, int, int]
    """Cells with one value share the height of the wave: pairwise, ranks, class."""


def make_cells(blocks: list[Block]) -> list[Cell]:
    """Divide every block by transfer time, a class per doubling."""
    cells = []
    for number, block in enumerate(blocks):
        size = np.round(CLASSES_PER_OCTAVE * np.log2(np.maximum(block.transfer, 1_000.0)))
        for value in np.unique(size):
            rows = np.flatnonzero(size == value)
            kind = int(value)
            cells.append(
                Cell(
                    number,
                    rows,
                    block.ranks,
                    block.start[rows],
                    block.end[rows],
                    float(np.median(block.transfer[rows])),
                    block.proves,
                    block.sends is not None,
                    (*block.key, kind),
                    (block.sends is not None, len(block.ranks), kind),
                )
            )
    return cells


def wave_of(cell: Cell, start: Floats) -> Floats:
    """How far each rank lies from the last arriver along the ring, from 1 (it) to 0 (opposite).

    `start` is on the common clock. Rings go in the order of ranks. In all-gathers of 151 MB over 8
    H100 the last arriver ends 92 us after the rank opposite to it.
    """
    known = np.isfinite(start)
    last = np.where(known, start, -np.inf).argmax(axis=1)[:, None]
    size = start.shape[1]
    apart = np.abs(np.arange(size) - last)
    if cell.pairwise:
        return np.asarray(apart == 0, dtype=np.float64)
    return np.asarray(1 - np.minimum(apart, size - apart) / max(1, size // 2), dtype=np.float64)


def row_medians(values: Floats) -> Floats:
    """Median of every row, NaN left out, as a column; by sorting, which numpy.nanmedian is slow
    at."""
    ranked = np.sort(values, axis=1)
    count = np.isfinite(values).sum(axis=1)
    row = np.arange(len(values))
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, values.shape[1] - 1)
    return np.asarray((ranked[row, low] + ranked[row, high])[:, None] / 2)
