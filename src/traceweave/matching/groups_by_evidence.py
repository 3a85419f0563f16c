"""Process groups that no label names, found by what their calls do.

Strands that look alike are aligned with one of them; those whose ends scatter alike are a set that
may be one group or several side by side. A set is proven where its ends tie it together against
every way in which groups lie over ranks, and divided where they say so (ties.py). Where neither is
clear, those that are together either way are a set, or its calls stay unmatched: a wrong match is
worse than none. Strands that cannot be aligned with a set, as where clocks step, may be of it all
the same if their ends run with its own, stretch by stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import Alignment
from traceweave.matching.common_time import CommonTime
from traceweave.matching.evidence import LEAST, SHARE, clear, verdicts
from traceweave.matching.groups import Job
from traceweave.matching.outcome import ALONE, NOT_PROVEN
from traceweave.matching.strands import COVERED, Aligner, Strand, signatures
from traceweave.matching.ties import (
    APART,
    GAP,
    STRAY_NS,
    Bundle,
    Tie,
    bundle,
    ends_apart,
    in_step,
    is_of_several,
    own_calls,
    rivals,
    strays,
    weigh,
)
from traceweave.medians import running_median

GAP_NS = 30_000.0
"""A strand whose ends scatter more than this, and GAP times more than those of the others, is of
another group: below, rings alone may do it."""


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
class _Settled:
    """A proven set, and what comparing it with the others shows."""

    found: StrandSet
    whole: bool = True
    """False: it and another may be one group, and nothing tells."""
    doubtful: bool = False
    """Together with another it divides otherwise."""


@dataclass
class Search:
    """Looks for the groups of strands."""

    time: CommonTime
    job: Job
    may_join: InitVar[Callable[[Strand, Strand], bool]]
    """Whether labels allow two strands to be of one group."""
    aligner: Aligner = field(init=False)
    reasons: dict[int, str] = field(default_factory=dict)
    """Why a strand, by its first call, is in no proven set."""
    proven: list[StrandSet] = field(default_factory=list)
    """What is proven so far of the strands that are searched."""

    def __post_init__(self, may_join: Callable[[Strand, Strand], bool]) -> None:
        self.aligner = Aligner(self.time, may_join, self.reasons)

    def find(self, strands: list[Strand]) -> list[StrandSet]:
        """Return the sets that are proven."""
        self.aligner.strands = strands
        self.proven = []
        rest = strands
        while found := [one for lot in [*self._candidates(rest)] for one in self._prove(lot)]:
            # those that seemed to be of a set that then was divided may be one by themselves
            self.proven += found
            rest = _without(rest, found)
        settled = self._settle(self.proven)
        rest = _without(strands, settled)
        kept = []
        for one in settled:
            if any(self._may_lack(one, strand) for strand in rest):
                self._refuse(one.strands, NOT_PROVEN)
            else:
                kept.append(one)
        self.proven = kept
        kept = [one for one in kept if not one.as_others or self._lies_as_others(one)]
        return [own for one in kept for own in self._own(one, kept)]

    def _own(self, found: StrandSet, others: list[StrandSet]) -> Iterator[StrandSet]:
        """The set without the calls that may be of another group, where its streams may carry
        several: of parts of this one, or of one that other sets are part of too.
        """
        if not found.shared or self.job.pair:
            yield found
            return
        place = found.strands[0].place
        own = np.full(len(place), True)
        for says in self._each_says(found):
            own &= own_calls(says, place)
        for other in others:
            if other is not found and not set(found.ranks()) & set(other.ranks()):
                union = self._union(found, other)
                if union is not None:
                    own &= own_calls(-self._against(union, len(found.strands)).by_call, place)
        # a few of what mostly is of another group are there by chance
        sort = signatures(found.strands[0].calls, np.arange(len(place)))
        own &= (np.bincount(sort, own) >= SHARE * np.bincount(sort))[sort]
        if own.sum() >= LEAST:
            yield found.only(own)
        else:
            self._refuse(found.strands, NOT_PROVEN)

    def doubts(self, found: StrandSet) -> tuple[bool, Flags]:
        """Whether some calls of a set clearly are not of its group, so that its streams carry
        several; and which calls of the first strand are of a sort that does not prove the group by
        itself, and might prove another."""
        place = found.strands[0].place
        sort = signatures(found.strands[0].calls, np.arange(len(place)))
        calls = np.bincount(sort)
        several, proven = False, np.full(len(calls), True)
        for says in self._each_says(found):
            several = several or is_of_several(says, place)
            evidence = np.asarray(np.bincount(sort, says), np.float64)
            proven &= verdicts(evidence, calls) > 0
        return several, np.asarray((~proven & (calls >= LEAST))[sort])

    def _each_says(self, found: StrandSet) -> Iterator[Floats]:
        """What each call says against every way in which its group may be several."""
        whole = self._bundle(found, pure=False)
        order = np.array(found.by_rank())
        for parts, recorded in self.job.layouts(found.ranks()):
            columns = [order[part] for part in parts]
            yield weigh(whole, columns, recorded).by_call + strays(whole, columns)

    def _may_lack(self, found: StrandSet, strand: Strand) -> bool:
        """Whether a strand that is in no set may be of this one."""
        union = self._union(found, StrandSet([strand], [None]))
        if union is None:
            return self._may_run_with(found, strand)
        return not self._apart(union, len(found.strands))

    def _may_run_with(self, found: StrandSet, strand: Strand) -> bool:
        """Whether a strand that could not be aligned with a set ends with it all the same, as where
        a clock has stepped among few calls: then it may have been last, and not who seems so.
        """
        seed, count = found.strands[0], len(found.strands)
        if strand.rank in found.ranks() or not self.aligner.comparable(strand, seed):
            return False
        loose = self.aligner.loosely(strand, seed)
        if (loose.partner >= 0).sum() < LEAST:
            return False
        both = bundle([*found.strands, strand], [*found.alignments, loose])
        parts = [np.arange(count), np.array([count])]
        apart = ends_apart(both, *parts)
        near = apart <= max(STRAY_NS, GAP * found.tie.ends_ns if found.tie else 0.0)
        if near.sum() < max(LEAST, COVERED * np.isfinite(apart).sum()):
            return False
        says = float(weigh(both, parts).by_call[near].sum())
        return says > 0 or not clear(says, int(near.sum()))

    def _may_run_together(self, old: _Settled, new: _Settled) -> bool:
        """Whether all strands of a set may run so with another, which has none of their ranks."""
        if set(old.found.ranks()) & set(new.found.ranks()):
            return False
        return all(self._may_run_with(old.found, strand) for strand in new.found.strands)

    def _candidates(self, strands: list[Strand]) -> Iterator[StrandSet]:
        """Sets of strands that scatter alike against the one with most calls."""
        free = sorted(strands, key=lambda s: (-len(s), s.rank))
        while free:
            found = self._around(free[0], free[1:])
            free = _without(free, [found])
            if len(found.strands) > 1:
                yield found

    def _around(self, seed: Strand, others: list[Strand]) -> StrandSet:
        """The seed and, of every rank, the strand whose ends scatter least against it, up to the
        first that scatters much more.
        """
        nearest: dict[int, tuple[float, Strand, Alignment]] = {}
        for other in others:
            found = self.aligner.align(other, seed)
            if found is not None:
                scatter = _scatter(other, seed, found)
                if other.rank not in nearest or scatter < nearest[other.rank][0]:
                    nearest[other.rank] = scatter, other, found
        ranked = sorted(nearest.values(), key=lambda entry: entry[0])
        if not ranked:
            self._refuse([seed], ALONE)
        kept = ranked[: _before_gap(np.array([entry[0] for entry in ranked]))]
        return StrandSet([seed, *(s for _, s, _ in kept)], [None, *(a for _, _, a in kept)])

    def _prove(self, found: StrandSet) -> Iterator[StrandSet]:
        """The set itself if its ends tie it together, the parts that they divide it into or that
        are one whichever way it is divided, or nothing.
        """
        order = np.array(found.by_rank())
        whole = self._bundle(found, pure=not found.shared).columns(order)
        layouts = list(self.job.layouts(found.ranks()))
        even, suggested = [parts for parts, _ in layouts], list(rivals(whole))
        ways = [*even, *suggested]
        as_others = self._lies_as_others(found)
        strict = self.job.lacks == 1 and bool(self._beside(found))
        ties = [
            weigh(whole, parts, None if as_others else own, strict=strict) for parts, own in layouts
        ]
        ties += [weigh(whole, parts) for parts in suggested]
        weakest = min(range(len(ties)), key=lambda n: ties[n].evidence)
        divided = ties[weakest].clear and ties[weakest].evidence < 0
        # calls of several groups on one stream need not have their readings in common
        refuted = [tie.proves or tie.joins for tie in ties]
        open_ways = [way for way, no in zip(even, refuted, strict=False) if not no]
        together = [] if found.shared else _together(open_ways)
        if divided:
            for part in ways[weakest]:
                yield from self._prove_part(found, order[part])
        elif self.job.pair or self._proves(found, ties):
            tie = ties[weakest]
            yield StrandSet(found.strands, found.alignments, tie, as_others=as_others)
        elif together:
            for part in together:
                for one in self._prove_part(found, order[part]):
                    yield replace(one, whole=False)
        else:
            self._refuse(found.strands, NOT_PROVEN)

    def _bundle(self, found: StrandSet, *, pure: bool) -> Bundle:
        """The calls of a set side by side; where parts of it may lack ranks, also whether its ranks
        come in step with each other or with those of strands that are not in it. A single rank that
        was not recorded comes in step with the same ones always.
        """
        whole = bundle(found.strands, found.alignments, pure=pure)
        layouts = self.job.layouts(found.ranks())
        if self.job.lacks < 2 or all(all(recorded) for _, recorded in layouts):
            return whole
        seed = found.strands[0]
        others = [strand for strand in self.aligner.strands if strand not in found.strands]
        aligned = [self.aligner.align(strand, seed) for strand in others]
        beside = bundle([seed, *others], [None, *aligned]).start[:, 1:]
        return replace(whole, in_step=in_step(whole, beside))

    def _lies_as_others(self, found: StrandSet) -> bool:
        """Whether a set is of a group that lacks ranks, and that lies as the groups beside it are
        proven to: all strands like its own, wherever such a group was recorded whole.
        """
        beside = self._beside(found)
        if not beside:
            return False
        of = {strand: one.ranks() for one in self.proven for strand in one.strands}
        longest = max(found.strands, key=len)
        lie = [
            of.get(strand) in beside
            for strand in self.aligner.strands
            if any(strand.rank in other for other in beside) and self.aligner.like(strand, longest)
        ]
        return bool(lie) and all(lie)

    def _beside(self, found: StrandSet) -> list[list[int]]:
        """The groups beside one that lacks ranks, which show how it lies: those recorded whole."""
        ranks = found.ranks()
        group = self.job.group_of(ranks)
        if group is None or group == ranks:
            return []
        return [other for other in self.job.beside(group) if {*other} <= {*self.job.ranks}]

    def _prove_part(self, found: StrandSet, places: Ints) -> Iterator[StrandSet]:
        """What is proven of some strands of a set."""
        strands = [found.strands[n] for n in places]
        part = self._around(strands[0], strands[1:])
        if len(part.strands) == len(strands) > 1:
            yield from self._prove(part)
        else:
            self._refuse(strands, NOT_PROVEN)

    def _proves(self, found: StrandSet, ties: list[Tie]) -> bool:
        """Whether ends show one group.

        Where ranks were not recorded, who was last may not be known, and starts have to lie far
        apart. Of one that lacks only one rank, the parts of a group that was recorded whole do know
        it, and groups beside it show how it lies. Calls of another group are looked for later on a
        stream that groups may share.
        """
        count = len(found.strands)
        if count > min(strand.size or count for strand in found.strands):
            return False
        group = self.job.group_of(found.ranks())
        if group is None:
            return False
        shown = group == found.ranks() or bool(self._beside(found))
        apart = 0.0 if self.job.lacks < 1 or (self.job.lacks == 1 and shown) else APART
        return all(tie.proves and tie.far_ratio >= apart for tie in ties)

    def _settle(self, proven: list[StrandSet]) -> list[StrandSet]:
        """Join sets that are parts of one group, drop those that together divide otherwise, and
        note of which nothing tells whether they are one.
        """
        settled: list[_Settled] = []
        for new in map(_Settled, proven):
            for old in settled:
                union = self._union(old.found, new.found)
                if union is None:
                    if not (old.doubtful and new.doubtful) and self._may_run_together(old, new):
                        old.doubtful = new.doubtful = True
                    continue
                if self._apart(union, len(old.found.strands)):
                    continue
                joined = list(self._prove(union))
                if len(joined) == 1 and len(joined[0].strands) == len(union.strands):
                    old.found = joined[0]
                    old.whole &= new.whole
                    old.doubtful |= new.doubtful
                    break
                both = [old.found.ranks(), new.found.ranks()]
                for one in (old, new):
                    one.whole = False
                    one.doubtful |= any(part.ranks() not in both for part in joined)
            else:
                settled.append(new)
        for one in settled:
            if one.doubtful:
                self._refuse(one.found.strands, NOT_PROVEN)
        return [
            replace(one.found, whole=one.found.whole and one.whole)
            for one in settled
            if not one.doubtful
        ]

    def _union(self, one: StrandSet, other: StrandSet) -> StrandSet | None:
        """Both sets as one; None where that cannot be."""
        if set(one.ranks()) & set(other.ranks()):
            return None
        seed = one.strands[0]
        found = [self.aligner.align(strand, seed) for strand in other.strands]
        if any(alignment is None for alignment in found):
            return None
        return StrandSet([*one.strands, *other.strands], [*one.alignments, *found])

    def _apart(self, union: StrandSet, first: int) -> bool:
        """Whether the first strands are clearly another group than the rest."""
        tie = self._against(union, first)
        return tie.clear and tie.evidence < 0

    def _against(self, union: StrandSet, first: int) -> Tie:
        """What ties the first strands to the rest."""
        place = np.arange(len(union.strands))
        both = bundle(union.strands, union.alignments, pure=not union.shared)
        return weigh(both, [place[:first], place[first:]])

    def _refuse(self, strands: list[Strand], reason: str) -> None:
        """Note why; that no other rank did the same says less than what was tried before."""
        for strand in strands:
            key = int(strand.index[0])
            if reason != ALONE or key not in self.reasons:
                self.reasons[key] = reason


def _together(ways: list[list[Ints]]) -> list[Ints]:
    """Those that are one part in each of the ways to divide them; none if there is no way, or one
    is alone.
    """
    if not ways:
        return []
    place = np.empty((len(ways), sum(map(len, ways[0]))), dtype=np.int64)
    for row, way in zip(place, ways, strict=True):
        for number, part in enumerate(way):
            row[part] = number
    together = np.unique(place, axis=1, return_inverse=True)[1].ravel()
    parts = [np.flatnonzero(together == n) for n in range(together.max() + 1)]
    return parts if min(map(len, parts)) > 1 else []


def _without(strands: list[Strand], sets: list[StrandSet]) -> list[Strand]:
    """The strands that are in no set."""
    placed = {strand for found in sets for strand in found.strands}
    return [strand for strand in strands if strand not in placed]


def _scatter(strand: Strand, seed: Strand, found: Alignment) -> float:
    """How far the ends of partners scatter, whatever their clocks do, ns."""
    mine = np.flatnonzero(found.partner >= 0)
    apart = (strand.calls.end[mine] - seed.calls.end[found.partner[mine]]).astype(np.float64)
    return float(np.median(np.abs(apart - running_median(apart))))


def _before_gap(scatter: Floats) -> int:
    """How many of ascending scatters come before the first that is much larger."""
    for n in range(1, len(scatter)):
        if scatter[n] > max(GAP * float(np.median(scatter[:n])), GAP_NS):
            return n
    return len(scatter)
