"""Which stretches of a clock between its steps calls tie to the clock of its reference.

Ranks may have met only others that stepped together with them, as far as calls show: what lies
beyond a step from all that ties them to the reference may lie anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.bends import Bend, passed
from traceweave.clocks.piece import Piece, on_common_clock


def tied_stretches(piece: Piece, bends: list[Bend], ends: list[Floats]) -> list[Flags]:
    """Return per rank which of its stretches are tied to its reference, by other clocks' where need
    be; `ends` are those of the piece's blocks, as recorded.
    """
    counts = np.zeros(len(piece.unit), dtype=np.int64)
    np.maximum.at(counts, piece.unit, [1 + len(bend.steps) for bend in bends])
    first = (np.cumsum(counts) - counts)[piece.unit]  # stretches of a clock are numbered in a row
    found = _Stretches.of(int(counts.sum()))
    for block, residual, end in zip(on_common_clock(piece), piece.fit.residuals, ends, strict=True):
        columns = [
            np.where(np.isfinite(residual[:, c]), _numbers(bends[r], end[:, c], first[r]), -1)
            for c, r in enumerate(block.ranks.tolist())
        ]
        over = np.nanmean(block.end, axis=1)
        found.add(np.column_stack(columns), over, piece.unit[block.ranks])
    roots = [piece.roots[int(component)] for component in piece.component]
    of = [slice(first[rank], first[rank] + 1 + len(bend.steps)) for rank, bend in enumerate(bends)]
    return [found.tied(of[rank], of[root]) for rank, root in enumerate(roots)]


@dataclass(frozen=True)
class _Stretches:
    """All stretches of all clocks, by number."""

    joined: Ints
    """Those of one number tie each other."""
    low: Floats
    """When the first of its calls was over, ns on the common clock,"""
    high: Floats
    """and the last;"""
    met_low: Floats
    """the same of those that other clocks share."""
    met_high: Floats

    @classmethod
    def of(cls, count: int) -> _Stretches:
        late, early = np.full(count, np.inf), np.full(count, -np.inf)
        return cls(np.arange(count), late.copy(), early.copy(), late, early)

    def add(self, number: Ints, over: Floats, unit: Ints) -> None:
        """Add a block: the stretch of each call, -1 for none, when they were over, and the clock of
        each rank."""
        known = number >= 0
        mine = np.where(known, unit, -1)
        others = np.where(known, unit, len(self.joined))
        several = (mine.max(axis=1) > others.min(axis=1))[:, None] & known
        at = np.broadcast_to(over[:, None], number.shape)
        for cells, low, high in (
            (known, self.low, self.high), (several, self.met_low, self.met_high)
        ):  # fmt: skip
            np.minimum.at(low, number[cells], at[cells])
            np.maximum.at(high, number[cells], at[cells])
        one = np.take_along_axis(number, known.argmax(axis=1)[:, None], axis=1)
        pairs = np.stack([np.broadcast_to(one, number.shape)[known], number[known]], axis=1)
        for a, b in np.unique(pairs, axis=0).tolist():
            self.joined[self.joined == self.joined[a]] = self.joined[b]

    def tied(self, mine: slice, root: slice) -> Flags:
        """Which of a clock's stretches are tied to those of its reference's, and not all before or
        after those meet any clock: then the reference may have stepped in between. Those
        between tied ones are left open by the steps around them.
        """
        meets = (self.low[mine] <= self.met_high[root].max()) & (
            self.high[mine] >= self.met_low[root].min()
        )
        tied = meets & np.isin(self.joined[mine], self.joined[root])
        before, after = np.maximum.accumulate(tied), np.maximum.accumulate(tied[::-1])[::-1]
        return np.asarray(before & after)


def stretch_at(bend: Bend, moment: float) -> int:
    """Return the number of a clock's stretch at a moment at which it was not set."""
    return sum(step.until <= moment for step in bend.steps)


def _numbers(bend: Bend, moments: Floats, first: int) -> Ints:
    """The stretches at these moments, counted from `first`; -1 where a clock may have been set."""
    number = np.full(len(moments), first)
    made = [passed(moments, step) for step in bend.steps]
    for one in made:
        number += one == 1.0
    for one in made:
        number[one == 0.5] = -1
    return number
