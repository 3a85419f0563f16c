"""Messages come in turn: a program repeats itself, so which message follows which on a rank tells
those that have met by chance from those whose pair only time did not show.

And messages that others may have as well: beside a pair that was never found, two of its neighbours
meet by chance, in turn and at the right time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.calls import OPS, RECV, SEND, UNKNOWN, Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.outcome import sides
from traceweave.matching.shifts import STEP_NS, STEPS

USUAL = 3
"""How many messages must be in one place of a program to tell what is usual there."""
BESIDE = (-1, 1), (-2, -1), (1, 2)
"""The messages that tell where in a program one is: on either side of it, or the two before or
after it."""

NEAR_NS = 100_000
"""A message that ends so near to another, and has no other side, may be it: clocks that few calls
tie are not known better."""
MOSTLY = 0.5
"""Share of the messages in one place of a program that surely tell who meets there."""
SIDES = {SEND: RECV, RECV: SEND, UNKNOWN: UNKNOWN}


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
        rank, other = calls.rank[index], calls.peer[index].copy()
        here, there = sides(instance[index], np.arange(len(index)), rank)
        other[here], other[there] = rank[there], rank[here]
        return cls(rank, calls.op[index], other)

    def pairs(self) -> set[tuple[int, int]]:
        """Ranks, ascending, that are known to have met."""
        known = self.other > self.rank
        return set(zip(self.rank[known].tolist(), self.other[known].tolist(), strict=True))

    def shares(self) -> Floats:
        """Return for every message which share of those in its place, beside the same two others or
        at least one, have the same other side, known or not; NaN of a place that few have.
        """
        share = np.full(len(self.other), np.nan)
        for here, place in self._places((*BESIDE, (-1,), (1,))):
            own = np.unique(np.c_[place, self.other[here]], axis=0, return_inverse=True)[1].ravel()
            count = np.bincount(place)[place]
            told = (count >= USUAL) & np.isnan(share[here])
            share[here[told]] = (np.bincount(own)[own] / count)[told]
        return np.where(self.other < 0, np.nan, share)

    def expected(self) -> Ints:
        """Return the other side of every message: that which is known, or the one that all others
        have which are in its place, if most of those are known; else -1.
        """
        expected = self.other.copy()
        for here, place in self._places(BESIDE):
            known = self.other[here] >= 0
            met, who = place[known], self.other[here[known]]
            highest, lowest = np.full(place.max() + 1, -1), np.full(place.max() + 1, 1 << 60)
            np.maximum.at(highest, met, who)
            np.minimum.at(lowest, met, who)
            count = np.bincount(met, minlength=len(highest))
            clear = (highest == lowest) & (count >= USUAL) & (2 * count >= np.bincount(place))
            told = clear[place] & (expected[here] < 0)
            expected[here[told]] = highest[place[told]]
        return expected

    def _places(self, beside: Iterable[tuple[int, ...]]) -> Iterator[tuple[Ints, Ints]]:
        """Messages of which all `beside`, so many messages on, are known, and the number of their
        place: equal ones come beside the same."""
        token = self._tokens()
        for steps in beside:
            others = np.stack([self._beside(token, step) for step in steps], axis=1)
            here = np.flatnonzero((others >= 0).all(axis=1))
            if len(here):
                turn = np.c_[self.rank, self.op, others][here]
                yield here, np.unique(turn, axis=0, return_inverse=True)[1].ravel()

    def _beside(self, token: Ints, step: int) -> Ints:
        """The token of each message's neighbour so many steps on; -1 where there is none."""
        found = np.full(len(token), -1)
        here = np.flatnonzero(np.roll(self.rank, -step) == self.rank)
        here = here[(here + step >= 0) & (here + step < len(token))]
        found[here] = token[here + step]
        return found

    def _tokens(self) -> Ints:
        """A number per other side and operation; -1 where that is not known."""
        return np.where(self.other < 0, -1, self.other * len(OPS) + self.op)


def rivalled(calls: Calls, index: Ints, instance: Ints, time: CommonTime) -> Ints:
    """Return the instances among the messages at `index` of which either side may belong to a rank
    that lies as far off as others do, since a message of that rank ends then which has no other
    side; of those whose turn is mostly another's, as near as clocks may step. A side that its own
    trace names is beyond doubt.
    """
    turns = Turns.of(calls, index, instance)
    far = {high - low for low, high in turns.pairs()}
    share = np.full(len(calls), np.nan)
    share[index] = turns.shares()
    bare = (instance >= 0) & (calls.peer < 0)
    sides = {
        (rank, op): index[(calls.rank[index] == rank) & (calls.op[index] == op)]
        for rank in np.unique(calls.rank[index]).tolist()
        for op in SIDES
    }
    ends = {side: _ends(calls, mine, side[0], time) for side, mine in sides.items()}
    found: list[Ints] = [np.zeros(0, dtype=np.int64)]
    for (rank, op), mine in sides.items():
        met = bare[mine]
        limit = np.where(~(share[mine[met]] < MOSTLY), NEAR_NS, STEPS * STEP_NS)
        for other in _at(rank, far):
            theirs = sides.get((other, SIDES[op]))
            if theirs is not None and time.tied(rank, other):
                free = (instance[theirs] < 0) & np.isin(calls.peer[theirs], (-1, rank))
                alone = ends[other, SIDES[op]][free]
                near = _nearest(ends[rank, op][met], alone) <= limit
                found.append(instance[mine[met]][near])
    return np.unique(np.concatenate(found))


def _at(rank: int, far: set[int]) -> Iterator[int]:
    """The ranks so far off."""
    for distance in far:
        yield rank - distance
        yield rank + distance


def _ends(calls: Calls, mine: Ints, rank: int, time: CommonTime) -> Floats:
    return time.shown(rank, calls.take(mine)).end.astype(np.float64)


def _nearest(times: Floats, others: Floats) -> Floats:
    """How far the nearest of the others is from each time."""
    others = np.concatenate([[-np.inf], np.sort(others), [np.inf]])
    after = np.searchsorted(others, times)
    return np.minimum(others[after] - times, times - others[after - 1])
