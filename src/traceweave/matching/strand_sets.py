"""Strands of different ranks that are one group, or may be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags
from traceweave.matching.alignment import Alignment
from traceweave.matching.strands import Strand
from traceweave.matching.ties import Tie


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
