"""Matched collectives as matrices: what a clock fit and the causality bounds are computed from.

One block holds the instances of one group and one kind of evidence, a row per instance and a column
per member; a rank that an instance lacks is NaN there. So memory is that of the calls, and sums
over pairs of ranks are matrix products.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from traceweave.arrays import Floats, Ints
from traceweave.matching.buffered import ends_coincide
from traceweave.matching.calls import PROVES, RECV, SEND, Calls

SHORTEST_NS = 100
"""No collective is over sooner. A call that seems to be had its clock set back meanwhile, and its
end is made up."""


@dataclass(frozen=True)
class Block:
    """Instances (rows) of one group over its ranks (columns); times in ns since the origin of the
    calls, NaN if absent.
    """

    ranks: Ints
    """Position of each column's rank in the list of all ranks."""
    start: Floats
    end: Floats
    transfer: Floats
    """Per row: shortest duration, ns."""
    key: tuple[int, int]
    """Group and sort of evidence."""
    proves: bool
    """Causality holds between every two ranks of a row."""
    sends: Floats | None = None
    """For send with recv: per cell 1 for the sender, 0 for the receiver."""
    doubt: tuple[Floats, Floats] | None = None
    """By how much, ns, each start may lie earlier and each end later than is told."""

    @property
    def early(self) -> Floats:
        """Starts, as early as they may have been."""
        return self.start if self.doubt is None else self.start - self.doubt[0]

    @property
    def late(self) -> Floats:
        """Ends, as late as they may have been."""
        return self.end if self.doubt is None else self.end + self.doubt[1]

    def doubted(self, of_rank: Floats) -> Block:
        """Return the block with starts and ends of each rank in doubt by so much more, ns."""
        more = np.broadcast_to(of_rank[self.ranks], self.start.shape)
        start, end = (0.0, 0.0) if self.doubt is None else self.doubt
        return replace(self, doubt=(start + more, end + more))

    def thinned(self, step: int) -> Block:
        """Return every `step`-th instance."""
        rows = slice(None, None, step)
        sends = None if self.sends is None else self.sends[rows]
        return replace(
            self,
            start=self.start[rows],
            end=self.end[rows],
            transfer=self.transfer[rows],
            sends=sends,
            doubt=None if self.doubt is None else (self.doubt[0][rows], self.doubt[1][rows]),
        )

    def of_columns(self, columns: Ints, ranks: Ints) -> Block:
        """Return the instances that two of some columns share; their ranks are called `ranks`."""
        shared = np.isfinite(self.end[:, columns]).sum(axis=1) > 1
        place = np.ix_(shared, columns)
        return replace(
            self,
            ranks=ranks,
            start=self.start[place],
            end=self.end[place],
            transfer=self.transfer[shared],
            sends=None if self.sends is None else self.sends[place],
            doubt=None if self.doubt is None else (self.doubt[0][place], self.doubt[1][place]),
        )

    def shifted(self, offset: Floats, drift: Floats, middle: Floats) -> Block:
        """Return the block on the common clock; the arrays have one value per rank of the run."""
        o, d, m = offset[self.ranks], drift[self.ranks], middle[self.ranks]
        return replace(
            self,
            start=self.start + o + d * (self.start - m),
            end=self.end + o + d * (self.end - m),
        )


def build_blocks(calls: Calls, instance: Ints, ranks: Ints) -> list[Block]:
    """Arrange the matched calls (instance >= 0) whose ends coincide in blocks; `ranks` lists all
    ranks, ascending."""
    matched = np.flatnonzero(
        ends_coincide(calls, instance) & (calls.end - calls.start >= SHORTEST_NS)
    )
    count = np.bincount(instance[matched], minlength=1)
    matched = matched[count[instance[matched]] > 1]
    if not len(matched):
        return []
    op = calls.op[matched]
    kind = np.where(PROVES[op], 0, np.where((op == SEND) | (op == RECV), 2, 1))
    first_label = np.full(int(instance.max()) + 1, -1, dtype=np.int64)
    first_label[instance[matched]] = calls.label[matched]
    key = 3 * first_label[instance[matched]] + kind
    order = np.argsort(key, kind="stable")
    borders = np.r_[0, np.flatnonzero(np.diff(key[order])) + 1, len(order)]
    blocks = []
    for low, high in pairwise(borders.tolist()):
        index = matched[order[low:high]]
        block = _build(calls, index, instance[index], ranks, int(key[order[low]]) % 3)
        if len(block.ranks) > 1:
            blocks.append(block)
    return blocks


def _build(calls: Calls, index: Ints, instance: Ints, ranks: Ints, kind: int) -> Block:
    members, column = np.unique(calls.rank[index], return_inverse=True)
    rows, row = np.unique(instance, return_inverse=True)
    shape = (len(rows), len(members))
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    start[row, column] = calls.start[index]
    end[row, column] = calls.end[index]
    sends: npt.NDArray[np.float64] | None = None
    if kind == 2:
        sends = np.full(shape, np.nan)
        sends[row, column] = calls.op[index] == SEND
    transfer = np.nanmin(end - start, axis=1)
    key = (int(calls.label[index[0]]), kind)
    return Block(np.searchsorted(ranks, members), start, end, transfer, key, kind == 0, sends)


def columns_of_ranks(blocks: list[Block], ranks: int) -> list[list[tuple[int, int]]]:
    """Return per rank in which blocks it is, and in which column of each."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    for number, block in enumerate(blocks):
        for column, rank in enumerate(block.ranks.tolist()):
            found[rank].append((number, column))
    return found
