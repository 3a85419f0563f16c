"""What a fit sees of the collectives: cells of instances that are alike.

A cell holds the instances of one group whose transfers took about equally long. Its ends scatter
alike and lag alike, so it has one noise and, per rank, one lag.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import Block

CLASSES_PER_OCTAVE = 3
"""Lags that grow with the transfer need classes this fine; finer ones have few instances."""
FEW = 8
"""Instances that a class needs to know its own noise, if there is another beside it."""


@dataclass(frozen=True)
class Cell:
    """Instances (rows) of one block and one class of transfer time over its ranks (columns)."""

    number: int
    """Place among all cells."""
    block: int
    rows: Ints
    """Which rows of the block."""
    ranks: Ints
    start: Floats
    end: Floats
    transfer: float
    """Median of the instances' shortest durations, ns."""
    excess: Floats
    """Per row: by how much its shortest duration is above that, ns."""
    proves: bool
    pairwise: bool
    """Send with recv: a row has two ranks."""
    wave: tuple[bool, int, int]
    """Cells with one value share the wave and the noise: pairwise, ranks, class of transfer."""

    def thinned(self, step: int) -> Cell:
        """Return every `step`-th instance."""
        rows = slice(None, None, step)
        return replace(
            self,
            rows=self.rows[rows],
            start=self.start[rows],
            end=self.end[rows],
            excess=self.excess[rows],
        )


def make_cells(blocks: list[Block]) -> list[Cell]:
    """Divide every block by transfer time, some classes per doubling."""
    cells: list[Cell] = []
    for number, block in enumerate(blocks):
        size = _classes(block.transfer)
        for value in np.unique(size):
            rows = np.flatnonzero(size == value)
            transfer = float(np.median(block.transfer[rows]))
            pairwise = block.sends is not None
            cells.append(
                Cell(
                    len(cells),
                    number,
                    rows,
                    block.ranks,
                    block.start[rows],
                    block.end[rows],
                    transfer,
                    block.transfer[rows] - transfer,
                    block.proves,
                    pairwise,
                    (pairwise, len(block.ranks), int(value)),
                )
            )
    return cells


def _classes(transfer: Floats) -> Ints:
    """Class of each instance; a class of few instances joins a fuller one beside it."""
    size = np.round(CLASSES_PER_OCTAVE * np.log2(np.maximum(transfer, 1_000.0))).astype(np.int64)
    values, counts = np.unique(size, return_counts=True)
    found = dict(zip(values.tolist(), counts.tolist(), strict=True))
    for value, count in found.items():
        beside = max((value - 1, value + 1), key=lambda v: found.get(v, 0))
        if count < FEW <= found.get(beside, 0):
            size[size == value] = beside
    return size
