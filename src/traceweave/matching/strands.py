"""Strands: what one rank did on one stream, which is the least that keeps together when nothing
names the groups.

A communicator has a stream of its own, so a strand mostly belongs to one group. Where operations of
several groups share a stream, that of the computation or, as other frameworks have it, one for all
communication, it does not; then operation, size and kernel divide it further.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.calls import OPS, Calls

THREADS = 2
"""Worker threads that gloo gives every group."""


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
