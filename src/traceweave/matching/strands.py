"""Strands: what one rank did on one stream, which is the least that keeps together when nothing
names the groups; and strands aligned with each other, each pair once.

A communicator has a stream of its own, so a strand mostly belongs to one group. Where operations of
several groups share a stream, that of the computation or, as other frameworks have it, one for all
communication, it does not; then operation, size and kernel divide it further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.alignment import Alignment, align_pair, align_stretches
from traceweave.matching.calls import OPS, Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.outcome import PART_FITS
from traceweave.matching.shifts import ALIKE

THREADS = 2
"""Worker threads that gloo gives every group."""
COVERED = 0.8
"""Share of the calls of both strands, while both recorded, that must have found each other."""
LIKE = 0.05
"""By what share of its calls a strand may have more or fewer than one like it."""


@dataclass(frozen=True, eq=False)
class Strand:
    """Calls of one rank in the order they began."""

    rank: int
    index: Ints
    """Positions in the calls of the run."""
    calls: Calls
    group: int
    """The group its labels name, by number; -1 if none."""
    size: int | None
    """How many ranks that group, or one with such a label, has, if the labels say."""
    place: Ints
    """Of each call, among all that the rank did on that stream."""
    shared: bool = False
    """Several groups may use its stream: it also computes, or what they do has shown it."""

    def __len__(self) -> int:
        return len(self.index)

    def take(self, kept: Ints) -> Strand:
        """Return the strand with some of its calls."""
        index, place = self.index[kept], self.place[kept]
        return replace(self, index=index, calls=self.calls.take(kept), place=place)

    def divided(self, by: Ints) -> list[Strand]:
        """Return the strand apart by a number that each call has."""
        return [self.take(np.flatnonzero(by == number)) for number in np.unique(by)]

    @property
    def stream(self) -> int:
        """The stream, -1 on the host."""
        return int(self.calls.stream[0])

    @property
    def mixed(self) -> bool:
        """More threads of a host backend ran it in one recording than a group has, so it is of
        several."""
        if self.calls.on_gpu[0]:
            return False
        ran = np.unique(np.c_[self.calls.source, self.calls.thread], axis=0)
        return int(np.unique(ran[:, 0], return_counts=True)[1].max()) > THREADS

    @property
    def operations(self) -> Ints:
        """How many calls of each operation."""
        return np.bincount(self.calls.op, minlength=len(OPS))


def strands_of(calls: Calls, index: Ints, by: Ints, group: int, size: int | None) -> list[Strand]:
    """Divide the calls at `index` by rank and by a number that each has."""
    if not len(index):
        return []
    key = np.unique(np.c_[calls.rank[index], by], axis=0, return_inverse=True)[1].ravel()
    parts = [index[key == number] for number in range(int(key.max()) + 1)]
    return [strand_of(calls, part, group, size) for part in parts]


def strand_of(calls: Calls, index: Ints, group: int = -1, size: int | None = None) -> Strand:
    """Return the calls at `index`, all of one rank, as a strand."""
    rank, shared = int(calls.rank[index[0]]), bool(calls.computing[index[0]])
    return Strand(rank, index, calls.take(index), group, size, np.arange(len(index)), shared)


def signatures(calls: Calls, index: Ints) -> Ints:
    """Number calls by all that is said of them, but the stream: equal numbers, equal words."""
    columns = [of[index] for of in (calls.op, calls.size, calls.dtype, calls.kernel)]
    return np.asarray(np.unique(np.c_[*columns], axis=0, return_inverse=True)[1].ravel(), np.int64)


@dataclass
class Aligner:
    """Aligns strands, and remembers what came of it: most pairs are asked for in every turn."""

    time: CommonTime
    may_join: Callable[[Strand, Strand], bool]
    """Whether labels allow two strands to be of one group."""
    reasons: dict[int, str]
    """Why a strand, by its first call, could not be aligned, is noted here."""
    strands: list[Strand] = field(default_factory=list)
    """All that are searched, whatever set is looked at."""
    _aligned: dict[tuple[Strand, Strand], Alignment] = field(default_factory=dict)
    _loose: dict[tuple[Strand, Strand], Alignment] = field(default_factory=dict)
    """The same of those that could not be aligned, some of their calls."""

    def align(self, strand: Strand, seed: Strand) -> Alignment | None:
        """Align a strand with the seed by itself; None if that does not tell, with the reason."""
        if not self.comparable(strand, seed):
            return None
        if (strand, seed) not in self._aligned:
            a, b, same_clock = self._shown(strand, seed)
            found = align_pair(a, b, same_clock=same_clock)
            if found.line is not None and not _covers(found):
                found = replace(found, line=None, reason=PART_FITS)
            if found.line is None:  # as most are: only the reason is asked for
                found = replace(found, partner=found.partner[:0])
            self._aligned[strand, seed] = found
        found = self._aligned[strand, seed]
        if found.line is None:
            self.reasons[int(strand.index[0])] = found.reason
            return None
        return found

    def loosely(self, strand: Strand, seed: Strand) -> Alignment:
        """Align those calls of a strand that run with the seed's, stretch by stretch."""
        if (strand, seed) not in self._loose:
            a, b, same_clock = self._shown(strand, seed)
            self._loose[strand, seed] = align_stretches(a, b, same_clock=same_clock)
        return self._loose[strand, seed]

    def _shown(self, strand: Strand, seed: Strand) -> tuple[Calls, Calls, bool]:
        """The calls of two strands on their common time, and whether they have one."""
        a, b = (self.time.shown(one.rank, one.calls) for one in (strand, seed))
        return a, b, self.time.tied(strand.rank, seed.rank)

    def like(self, strand: Strand, other: Strand) -> bool:
        """Whether two strands did the same operations about equally often."""
        return self.comparable(strand, other) and abs(len(strand) - len(other)) <= LIKE * len(other)

    def comparable(self, strand: Strand, seed: Strand) -> bool:
        """Whether operations and labels allow two strands, of two ranks, to be of one group."""
        shared = int(np.minimum(strand.operations, seed.operations).sum())
        enough = shared >= ALIKE * max(1, min(len(strand), len(seed)))
        return strand.rank != seed.rank and enough and self.may_join(strand, seed)


def _covers(found: Alignment) -> bool:
    """Whether most calls between the first and the last that found a partner have one."""
    i = np.flatnonzero(found.partner >= 0)
    if not len(i):
        return False
    j = found.partner[i]
    span = max(i[-1] - i[0], j.max() - j.min()) + 1
    return bool(len(i) >= COVERED * span)
