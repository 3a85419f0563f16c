"""Ends of matched calls, one after another: what the model of all clocks is fitted to.

Those of one instance stand beside each other, instances in the order of time. Instances of one
group, operation and size are a *cell*: their ends scatter alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.matrices import PROBED, ROOTED, Block
from traceweave.medians import medians

WAITED = 1.3
"""Who takes so many times as long as the quickest tenth of calls has waited for the root of a
broadcast, and ends when it does; the ends of others are their own."""
PER_END = ("rank", "local", "start", "place")
PER_ROW = ("cell", "block", "probed", "ring", "transfer")
LEAST = 8
"""Instances that tell how far ends of a cell scatter, or whether a clock steps: fewer do not."""


@dataclass(frozen=True)
class Ends:
    """Arrays have one value per end, if nothing else is said; times in ns since the origin."""

    rank: Ints
    local: Floats
    """On the rank's own clock."""
    start: Floats
    """When the call began, on the same."""
    place: Ints
    """Of the rank in the ring of its group."""
    row: Ints
    """Its instance, ascending."""
    cell: Ints
    """Per instance."""
    block: Ints
    """Per instance: of which block of calls it is."""
    probed: Flags
    """Per instance: whether it is an exchange of probes."""
    ring: Ints
    """Per instance: members of its ring, two of a message; 0 where there is none."""
    transfer: Floats
    """Per instance: how long its quickest rank took, ns."""

    @property
    def rows(self) -> int:
        """The number of instances."""
        return len(self.cell)

    @property
    def first(self) -> Ints:
        """Per instance: the place of its first end."""
        return np.searchsorted(self.row, np.arange(self.rows))

    def of_rows(self, chosen: Flags | Ints) -> Ends:
        """Return the ends of some instances: the marked ones, or those listed, in this order."""
        rows = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
        number = np.full(self.rows, -1)
        number[rows] = np.arange(len(rows))
        row = number[self.row]
        mine = np.argsort(row, kind="stable")[int((row < 0).sum()) :]
        per_end = {name: getattr(self, name)[mine] for name in PER_END}
        per_row = {name: getattr(self, name)[rows] for name in PER_ROW}
        return Ends(row=row[mine], **per_end, **per_row)

    def tying(self, unit: Ints) -> Flags:
        """Return which instances tie clocks to each other; `unit` is the clock of every rank."""
        of = unit[self.rank]
        return np.asarray(np.minimum.reduceat(of, self.first) < np.maximum.reduceat(of, self.first))

    def united(self, unit: Ints, lead: Ints, local: Floats) -> Ends:
        """Return ends, those of an instance on one clock made one, the median of `local`; `unit` is
        the clock of every rank, `lead` a rank of every clock."""
        key = self.row * len(lead) + unit[self.rank]
        kinds, number = np.unique(key, return_inverse=True)
        return replace(
            self,
            rank=lead[kinds % len(lead)],
            local=medians(local, number),
            start=medians(self.start, number),
            place=np.zeros(len(kinds), np.int64),
            row=kinds // len(lead),
            ring=np.where(self.ring > 2, self.ring, 0),
        )

    def thinned(self, most: int, least: int) -> Ends:
        """Return about `most` ends, every n-th instance of each cell, but `least` of each."""
        step = max(1, len(self.rank) // most)
        if step == 1:
            return self
        of_cell = np.bincount(self.cell)
        every = np.clip(of_cell // least, 1, step)[self.cell]
        return self.of_rows(places(self.cell) % every == 0)


def places(kind: Ints) -> Ints:
    """Return which of its kind each is, from 0."""
    order = np.argsort(kind, kind="stable")
    count = np.bincount(kind)
    result = np.empty(len(kind), np.int64)
    result[order] = np.arange(len(kind)) - np.repeat(np.cumsum(count) - count, count)
    return result


def ends_of(blocks: list[Block]) -> Ends:
    """Return the ends of the blocks that tell clocks, instances in the order of the blocks."""
    parts, rows, cells = [], 0, 0
    for number, block in enumerate(blocks):
        known = _telling(block)
        kept = known.sum(axis=1) > 1
        row, column = np.nonzero(known[kept])
        cell, count, probed = _cells(block, kept), int(kept.sum()), block.key[1] == PROBED
        ring = 2 * (block.sends is not None) if not block.proves else len(block.ranks)
        part = Ends(
            block.ranks[column],
            block.end[kept][row, column],
            block.start[kept][row, column],
            column if block.sends is None else places(row),
            row + rows,
            cell + cells,
            np.full(count, number),
            np.full(count, probed),
            np.full(count, 0 if probed else ring),
            block.transfer[kept],
        )
        parts.append([getattr(part, of.name) for of in fields(Ends)])
        rows, cells = rows + count, cells + int(cell.max(initial=-1)) + 1
    nothing = [[np.zeros(0, np.int64)] * len(fields(Ends))]
    return Ends(*(np.concatenate(of) for of in zip(*(parts or nothing), strict=True)))


def _telling(block: Block) -> Flags:
    """Which ends of a block coincide with others of their instance."""
    known = np.isfinite(block.end)
    if block.key[1] == ROOTED:
        took = np.where(known, block.end - block.start, np.nan)
        known &= took > WAITED * np.nanpercentile(took, 10)
    return np.asarray(known)


def _cells(block: Block, kept: Flags) -> Ints:
    """The cell of each instance: by operation and size, or the power of two of how long the
    quickest rank took; those of too few instances together."""
    octave = np.frexp(np.maximum(block.transfer[kept], 1.0))[1].astype(np.int64)
    sort = np.full(len(octave), -1) if block.sort is None else block.sort[kept]
    cell = np.where(sort >= 0, sort, -1 - octave)
    for merged in (-1 - octave, np.full(len(octave), -100)):
        _, number, count = np.unique(cell, return_inverse=True, return_counts=True)
        cell = np.where(count[number] < LEAST, merged, cell)
    return np.asarray(np.unique(cell, return_inverse=True)[1], dtype=np.int64)
