"""Calls of several ranks matched by order: each rank against one that saw most, the leftovers by
time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.alignment import align_pair
from traceweave.matching.calls import Calls, SameClock
from traceweave.matching.coarse_clocks import EXACT, Line, match_by_time, on_clock
from traceweave.matching.outcome import ALONE, OVERLAPS, Matches

ROUNDING_NS = 2_000
"""Old traces have whole microseconds."""


@dataclass
class Part:
    """One rank's calls of a group in one profiling window, and how they lie on the reference's
    clock.
    """

    index: Ints
    calls: Calls
    line: Line | None = None
    reason: str = ""


def match_by_order(calls: Calls, index: Ints, same_clock: SameClock, matches: Matches) -> None:
    """Align every rank with the rank that recorded most, then the leftovers with each other by
    time.
    """
    over = _overlapping(calls.take(index))
    matches.refuse(index[over], OVERLAPS)
    index = index[~over]
    first = matches.next_instance
    own = calls.take(index)
    by_rank = _split(own, np.arange(len(index)), own.rank)
    if len(by_rank) < 2:
        matches.refuse(index, ALONE)
        return
    for reference in sorted(by_rank, key=lambda part: -len(part.index))[:3]:
        others = [part for part in by_rank if part is not reference]
        parts = [p for o in others for p in _split(own, o.index, own.source[o.index])]
        instance = np.full(len(index), -1, dtype=np.int64)
        instance[reference.index] = first + np.arange(len(reference.index))
        plain = _align_all(parts, reference, same_clock, instance)
        if sum(part.line is not None for part in parts) * 2 >= len(parts):
            break
    for part in parts:
        if part.line is None:
            matches.refuse(index[part.index], part.reason)
    reference.line = EXACT
    match_rest([reference, *parts], instance)
    found = np.flatnonzero(instance >= 0)
    matches.accept(index[found], instance[found], "order" if plain else "sequence-aligned")


def _overlapping(calls: Calls) -> Flags:
    """Calls that one stream ran at once, which none does: its clock was set back meanwhile, and
    their order may not be what it seems."""
    beside = (np.diff(calls.rank) == 0) & (np.diff(calls.stream) == 0) & calls.on_gpu[1:]
    beside &= calls.start[1:] < calls.end[:-1] - ROUNDING_NS
    return np.asarray(np.r_[beside, False] | np.r_[False, beside])


def _split(calls: Calls, index: Ints, key: Ints) -> list[Part]:
    """The calls at `index`, apart by key, each in its old order."""
    return [
        Part(chosen, calls.take(chosen)) for k in np.unique(key) for chosen in [index[key == k]]
    ]


def _align_all(parts: list[Part], reference: Part, same_clock: SameClock, instance: Ints) -> bool:
    """Give the calls of `parts` the instances of their partners in `reference`; whether order alone
    explains all.
    """
    plain = True
    for part in parts:
        known = same_clock(int(part.calls.rank[0]), int(reference.calls.rank[0]))
        alignment = align_pair(part.calls, reference.calls, same_clock=known)
        part.line, part.reason = alignment.line, alignment.reason
        plain = plain and alignment.plain
        found = alignment.partner >= 0
        instance[part.index[found]] = instance[reference.index[alignment.partner[found]]]
    return plain


def match_rest(parts: list[Part], instance: Ints) -> None:
    """Match calls that the first part lacks, by time, against the part that has most of them, until
    none is left.
    """
    known = instance.copy()
    placed = [(part, part.line) for part in parts[1:] if part.line is not None]
    for _ in parts:
        free = [(np.flatnonzero(instance[part.index] < 0), part, line) for part, line in placed]
        left = sorted((one for one in free if len(one[0])), key=lambda one: -len(one[0]))
        if len(left) < 2:
            return
        (place, lead, its), *others = left
        instance[lead.index[place]] = int(instance.max()) + 1 + np.arange(len(place))
        # all on the clock of the first part
        theirs = on_clock(lead.calls.take(place), its)
        for own, part, line in others:
            partner = np.full(len(own), -1, dtype=np.int64)
            common = replace(EXACT, scatter=max(line.scatter, its.scatter))
            match_by_time(on_clock(part.calls.take(own), line), theirs, common, partner)
            here = own[partner >= 0]
            there = place[partner[partner >= 0]]
            sure = _continue(here, known[part.index], there, known[lead.index])
            instance[part.index[here[sure]]] = instance[lead.index[there[sure]]]


def _continue(mine: Ints, my_instance: Ints, theirs: Ints, their_instance: Ints) -> Flags:
    """Which pairs of two ranks' calls, given by their places, go on from calls beside them that are
    matched: elsewhere nothing shows that no clock has stepped since.
    """
    if not len(mine):
        return np.zeros(0, dtype=np.bool_)
    new = np.flatnonzero(np.r_[True, (np.diff(mine) != 1) | (np.diff(theirs) != 1)])
    last = np.r_[new[1:], len(mine)] - 1
    padded = [np.r_[-1, of, -1] for of in (my_instance, their_instance)]
    before = [of[place[new]] for of, place in zip(padded, (mine, theirs), strict=True)]
    after = [of[place[last] + 2] for of, place in zip(padded, (mine, theirs), strict=True)]
    sure = [(one == other) & (one >= 0) for one, other in (before, after)]
    return np.repeat(sure[0] | sure[1], last - new + 1)
