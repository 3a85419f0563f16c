"""Strands aligned with each other for the search of groups, each pair once; and sets of them, which
may be one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from traceweave.arrays import Flags
from traceweave.matching.alignment import Alignment, align_pair, align_stretches
from traceweave.matching.calls import Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.outcome import PART_FITS
from traceweave.matching.strands import Strand
from traceweave.matching.ties import Tie

ALIKE = 0.5
"""Share of operations that two strands need in common to be worth comparing."""
COVERED = 0.8
"""Share of the calls of both strands, while both recorded, that must have found each other."""
LIKE = 0.05
"""By what share of its calls a strand may have more or fewer than one like it."""


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
