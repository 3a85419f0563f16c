"""Strands aligned with each other for the search of groups, each pair once; and sets of them, which
may be one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Flags
from traceweave.matching.alignment import Alignment
from traceweave.matching.common_time import CommonTime
from traceweave.matching.strands import Strand, align_loosely, align_strands, may_be_one
from traceweave.matching.ties import Tie

LIKE = 0.05
"""By what share of its calls a strand may have more or fewer than one like it."""
MATES = 3
"""Strands of its clock that one that cannot be aligned is tried beside."""


@dataclass(frozen=True)
class StrandSet:
    """Strands that are one group, or may be; the others are aligned with the first."""

    strands: list[Strand]
    alignments: list[Alignment | None]
    tie: Tie | None = None
    """The weakest of what proves it."""
    whole: bool = True
    """False: others may be of the group too, and nothing tells."""
    as_others: bool = False
    """It lacks a member, and is one group only if that lies as others were found to."""

    @property
    def shared(self) -> bool:
        """Some of its streams may carry calls of other groups too."""
        return any(strand.shared for strand in self.strands)

    def only(self, kept: Flags) -> StrandSet:
        """Return the set with some calls of the first strand and their partners."""
        if kept.all():
            return self
        row = np.cumsum(kept) - 1
        strands, alignments = [self.strands[0].take(np.flatnonzero(kept))], [self.alignments[0]]
        for strand, found in zip(self.strands[1:], self.alignments[1:], strict=True):
            if found is not None:
                mine = np.flatnonzero((found.partner >= 0) & kept[found.partner])
                strands.append(strand.take(mine))
                alignments.append(replace(found, partner=row[found.partner[mine]], plain=False))
        return replace(self, strands=strands, alignments=alignments)

    def ranks(self) -> list[int]:
        """The members, ascending."""
        return sorted(strand.rank for strand in self.strands)

    def by_rank(self) -> list[int]:
        """Places of the strands in the order of ranks."""
        return sorted(range(len(self.strands)), key=lambda n: self.strands[n].rank)


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
    _mates: dict[Strand, list[Strand]] = field(default_factory=dict)
    """What may stand in for a strand, as `mates` says."""

    def align(self, strand: Strand, seed: Strand) -> Alignment | None:
        """Align a strand with the seed by itself; None if that does not tell, with the reason."""
        if not self.comparable(strand, seed):
            return None
        if (strand, seed) not in self._aligned:
            found = align_strands(strand, seed, self.time)
            if found.line is None:  # as most are: only the reason is asked for
                found = replace(found, partner=found.partner[:0])
            self._aligned[strand, seed] = found
        found = self._aligned[strand, seed]
        if found.line is None:
            self.reasons[int(strand.index[0])] = found.reason
            return None
        return found

    def beside(self, strand: Strand, seed: Strand) -> Alignment | None:
        """Align a strand with the seed as one like it of its own clock is: beside that, what is
        missing in between shows, however far the seed's clock is off.
        """
        if not self.comparable(strand, seed):
            return None
        mates = [other for other in self.mates(strand) if other.rank != seed.rank]
        for other in mates[:MATES]:
            there = self.align(other, seed)
            here = self.align(strand, other) if there is not None else None
            if here is not None and there is not None:
                partner = np.where(here.partner >= 0, there.partner[here.partner], -1)
                self._aligned[strand, seed] = Alignment(partner, there.line, False)
                return self._aligned[strand, seed]
        return None

    def mates(self, strand: Strand) -> list[Strand]:
        """Strands of other ranks of its clock, as long as it, those most like it first."""
        if strand not in self._mates:
            mates = [
                other
                for other in self.strands
                if other.rank != strand.rank
                and self.time.tied(strand.rank, other.rank)
                and _as_long(other, strand)
            ]
            mates.sort(key=lambda other: (abs(len(other) - len(strand)), other.rank))
            self._mates[strand] = mates
        return self._mates[strand]

    def loosely(self, strand: Strand, seed: Strand) -> Alignment:
        """Align those calls of a strand that run with the seed's, stretch by stretch."""
        if (strand, seed) not in self._loose:
            self._loose[strand, seed] = align_loosely(strand, seed, self.time)
        return self._loose[strand, seed]

    def like(self, strand: Strand, other: Strand) -> bool:
        """Whether two strands did the same operations about equally often."""
        return self.comparable(strand, other) and _as_long(strand, other)

    def comparable(self, strand: Strand, seed: Strand) -> bool:
        """Whether operations and labels allow two strands to be of one group."""
        return may_be_one(strand, seed) and self.may_join(strand, seed)


def _as_long(strand: Strand, other: Strand) -> bool:
    """Whether a strand has about as many calls as another."""
    return abs(len(strand) - len(other)) <= LIKE * len(other)
