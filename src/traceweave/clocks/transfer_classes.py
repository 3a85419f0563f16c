"""What a fit sees of the collectives: cells of instances that are alike.

A cell holds the instances of groups of one size whose transfers took about equally long. Their ends
scatter alike, so a cell has one noise; ranks of one group lag alike, so it has a lag per group and
rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.matrices import Block

CLASSES_PER_OCTAVE = 3
"""Lags that grow with the transfer need classes this fine; finer ones have few instances."""
FEW = 8
"""Instances that a class needs to know its own noise, if there is another beside it."""


@dataclass(frozen=True)
class Cell:
    """Instances (rows) of one class of transfer time over groups of one size, side by side: a row's
    columns are the ranks of its group.
    """

    number: int
    """Place among all cells."""
    blocks: Ints
    """Per group: its block."""
    ranks: Ints
    """Per group, a row of ranks."""
    group: Ints
    """Per row: its group here; ascends."""
    rows: Ints
    """Per row: which row of its group's block."""
    start: Floats
    end: Floats
    transfer: Floats
    """Per group: median of its instances' shortest durations, ns."""
    excess: Floats
    """Per row: by how much its shortest duration is above that, ns."""
    proves: Flags
    """Per group."""
    pairwise: bool
    """Send with recv: a row has two ranks."""
    wave: tuple[bool, int, int]
    """Names the cell, its wave and its noise: pairwise, ranks of a group, class of transfer."""

    @property
    def borders(self) -> Ints:
        """Where the rows of each group begin, and where the last ones end."""
        return np.searchsorted(self.group, np.arange(len(self.blocks) + 1))

    def thinned(self, most: int) -> Cell:
        """Return as evenly spread instances of every group, `most` of each or fewer."""
        count = np.bincount(self.group, minlength=len(self.blocks))
        every = -(-count // most)
        turn = np.arange(len(self.group)) - self.borders[self.group]
        kept = turn % every[self.group] == 0
        return replace(
            self,
            group=self.group[kept],
            rows=self.rows[kept],
            start=self.start[kept],
            end=self.end[kept],
            excess=self.excess[kept],
        )


def make_cells(blocks: list[Block]) -> list[Cell]:
    """Divide every block by transfer time, some classes per doubling."""
    parts: dict[tuple[bool, int, int], list[tuple[int, Ints]]] = {}
    for number, block in enumerate(blocks):
        size = _classes(block.transfer)
        for value in np.unique(size).tolist():
            wave = (block.sends is not None, len(block.ranks), value)
            parts.setdefault(wave, []).append((number, np.flatnonzero(size == value)))
    return [
        _cell(number, wave, members, blocks)
        for number, (wave, members) in enumerate(sorted(parts.items(), key=lambda p: p[0][:2]))
    ]


def _cell(
    number: int, wave: tuple[bool, int, int], members: list[tuple[int, Ints]], blocks: list[Block]
) -> Cell:
    whole = [blocks[block] for block, _ in members]
    shortest = [block.transfer[rows] for block, (_, rows) in zip(whole, members, strict=True)]
    transfer = np.array([float(np.median(values)) for values in shortest])
    return Cell(
        number,
        np.array([block for block, _ in members]),
        np.array([block.ranks for block in whole]),
        np.repeat(np.arange(len(members)), [len(rows) for _, rows in members]),
        np.concatenate([rows for _, rows in members]),
        np.concatenate(
            [block.start[rows] for block, (_, rows) in zip(whole, members, strict=True)]
        ),
        np.concatenate([block.end[rows] for block, (_, rows) in zip(whole, members, strict=True)]),
        transfer,
        np.concatenate([v - t for v, t in zip(shortest, transfer, strict=True)]),
        np.array([block.proves for block in whole]),
        wave[0],
        wave,
    )


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
