"""Messages come in turn: a program repeats itself, so which message follows which on a rank tells
those that have met by chance from those whose pair only time did not show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import OPS, Calls

USUAL = 3
"""How often one message must follow another to be no chance."""


@dataclass
class Turns:
    """The messages of all ranks, each rank's in its order, as far as they are matched."""

    rank: Ints
    op: Ints
    other: Ints
    """The rank on the other side; -1: not known."""

    @classmethod
    def of(cls, calls: Calls, index: Ints, instance: Ints) -> Turns:
        """Return the turns of the calls at `index`, ascending, that `instance` matches or whose own
        trace names the other side.
        """
        rank, found = calls.rank[index], instance[index]
        other = calls.peer[index].copy()
        order = np.lexsort((rank, found))
        order = order[found[order] >= 0]
        first = np.flatnonzero(np.diff(found[order]) == 0)
        here, there = order[first], order[first + 1]
        other[here], other[there] = rank[there], rank[here]
        return cls(rank, calls.op[index], other)

    def pairs(self) -> set[tuple[int, int]]:
        """Ranks, ascending, that are known to have met."""
        known = self.other > self.rank
        return set(zip(self.rank[known].tolist(), self.other[known].tolist(), strict=True))

    def support(self) -> tuple[Ints, Ints]:
        """Return for every message how many of its neighbours it usually comes beside, less those
        that it does not, and how many it has.
        """
        here = self._steps()
        token = self._tokens()
        turn = np.c_[self.rank[here], token[here], token[here + 1]]
        _, which, count = np.unique(turn, axis=0, return_inverse=True, return_counts=True)
        usual = count[which.ravel()] >= USUAL
        fits, heard = np.zeros((2, len(self.rank)), dtype=np.int64)
        for beside in (here, here + 1):
            np.add.at(fits, beside, np.where(usual, 1, -1))
            np.add.at(heard, beside, 1)
        return fits, heard

    def expected(self) -> Ints:
        """Return the other side of every message: that which is known, or the one that all others
        have which come beside the same two messages, if most of those are known; else -1.
        """
        expected = np.full(len(self.other), -1)
        token = self._tokens()
        for beside in ((-1, 1), (-2, -1), (1, 2)):
            told = self._told(*(self._beside(token, k) for k in beside))
            expected = np.where(expected < 0, told, expected)
        return np.where(self.other < 0, expected, self.other)

    def _beside(self, token: Ints, step: int) -> Ints:
        """The token of each message's neighbour so many steps on; -1 where there is none."""
        found = np.full(len(token), -1)
        here = np.flatnonzero(np.roll(self.rank, -step) == self.rank)
        here = here[(here + step >= 0) & (here + step < len(token))]
        found[here] = token[here + step]
        return found

    def _told(self, one: Ints, other: Ints) -> Ints:
        """What the tokens of two neighbours tell of the other side of every message."""
        told = np.full(len(self.other), -1)
        here = np.flatnonzero((one >= 0) & (other >= 0))
        if not len(here):
            return told
        turn = np.c_[self.rank, self.op, one, other][here]
        which = np.unique(turn, axis=0, return_inverse=True)[1].ravel()
        known = self.other[here] >= 0
        met, who = which[known], self.other[here[known]]
        highest, lowest = np.full(which.max() + 1, -1), np.full(which.max() + 1, 1 << 60)
        np.maximum.at(highest, met, who)
        np.minimum.at(lowest, met, who)
        count = np.bincount(met, minlength=len(highest))
        clear = (highest == lowest) & (count >= USUAL) & (2 * count >= np.bincount(which))
        told[here] = np.where(clear, highest, -1)[which]
        return told

    def _tokens(self) -> Ints:
        """A number per other side and operation; -1 where that is not known."""
        return np.where(self.other < 0, -1, self.other * len(OPS) + self.op)

    def _steps(self) -> Ints:
        """Places of messages that are known, as the next one of their rank is."""
        known = (self.other[:-1] >= 0) & (self.other[1:] >= 0)
        return np.flatnonzero(known & (self.rank[:-1] == self.rank[1:]))
