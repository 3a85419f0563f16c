"""Which calls of different ranks are one operation.

Within one group: by sequence number where the trace has one, else by aligning the ranks' sequences
(alignment.py), each against the rank that saw most. Sends pair with receives of the same two ranks.
A wrong match is worse than none: what does not fit stays unmatched, with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.alignment import align_pair
from traceweave.matching.by_time import match_leftovers
from traceweave.matching.calls import RECV, SEND, Calls
from traceweave.matching.coarse_clocks import Line
from traceweave.matching.groups import Group
from traceweave.matching.misnumbered import misnumbered
from traceweave.matching.outcome import (
    ALONE,
    COALESCED,
    DISAGREE,
    MISNUMBERED,
    NO_SEQ,
    NO_TIME_FIT,
    SEVERAL_GROUPS,
    Matches,
)
from traceweave.matching.peers import fill_peers
from traceweave.matching.send_recv import SameClock, match_channels


def match_calls(calls: Calls, groups: list[Group], same_clock: SameClock) -> Matches:
    """Match all calls of a run; `calls.label` holds the index of each call's group in `groups`.

    `same_clock` tells whether two ranks are known to have one clock. Instances count from 0 in the
    order of groups.
    """
    matches = Matches.empty(len(calls))
    order = np.argsort(calls.label, kind="stable")
    borders = np.searchsorted(calls.label[order], np.arange(len(groups) + 1))
    for number, group in enumerate(groups):
        index = order[borders[number] : borders[number + 1]]
        if group.ambiguous:
            matches.refuse(index, SEVERAL_GROUPS)
            continue
        pairwise = (calls.op[index] == SEND) | (calls.op[index] == RECV)
        _match_group(calls, index[~pairwise], group, same_clock, matches)
        fill_peers(calls, index[pairwise], group)
        match_channels(calls, index[pairwise], same_clock, matches)
    _refuse_singles(calls, groups, matches)
    _renumber(matches)
    return matches


def _match_group(
    calls: Calls, index: Ints, group: Group, same_clock: SameClock, matches: Matches
) -> None:
    if not len(index):
        return
    first = matches.next_instance
    if group.size == 1:
        matches.accept(index, first + np.arange(len(index)), "order")
        return
    seq = calls.seq[index]
    numbered = np.unique(calls.rank[index][seq >= 0])
    bare = np.unique(calls.rank[index][seq < 0])
    # ranks that never count were recorded by another profiler, or an older one
    if len(numbered) and not len(np.setdiff1d(bare, numbered)):
        _match_by_seq(calls, index[seq >= 0], first, matches)
        matches.refuse(index[seq < 0], NO_SEQ)
    else:
        _match_by_order(calls, index, same_clock, matches)


def _match_by_seq(calls: Calls, index: Ints, first: int, matches: Matches) -> None:
    """Calls of one number are one instance; several of one rank under one number count in their
    order.
    """
    rank, seq = calls.rank[index], calls.seq[index]
    by_rank = np.lexsort((np.arange(len(index)), seq, rank))
    new = np.r_[True, (np.diff(rank[by_rank]) != 0) | (np.diff(seq[by_rank]) != 0)]
    run = np.cumsum(new) - 1
    starts = np.flatnonzero(new)
    turn = np.empty(len(index), dtype=np.int64)
    turn[by_rank] = np.arange(len(index)) - starts[run]
    lengths = np.empty(len(index), dtype=np.int64)
    lengths[by_rank] = np.diff(np.r_[starts, len(index)])[run]

    numbers, number = np.unique(seq, return_inverse=True)
    longest, shortest = _extremes(number, lengths, len(numbers))
    uneven = (longest != shortest)[number]
    instance = np.unique(number * (int(turn.max()) + 1) + turn, return_inverse=True)[1]
    wrong = ~_uniform(calls, index, instance)
    matches.accept(index, first + instance, "seq")
    matches.refuse(index[wrong], DISAGREE)
    matches.refuse(index[uneven], COALESCED)
    kept = ~wrong & ~uneven
    index, instance = index[kept], instance[kept]
    matches.refuse(index[misnumbered(calls, index, instance)], MISNUMBERED)


def _uniform(calls: Calls, index: Ints, instance: Ints) -> Flags:
    """Whether all calls of a call's instance agree on operation, size and type, as far as known."""
    count = int(instance.max()) + 1
    uniform = np.ones(count, dtype=np.bool_)
    for values in (calls.op[index], calls.size[index], calls.dtype[index]):
        known = values >= 0
        highest, lowest = _extremes(instance[known], values[known], count)
        uniform &= highest <= lowest
    return np.asarray(uniform[instance])


def _extremes(key: Ints, values: Ints, count: int) -> tuple[Ints, Ints]:
    """Highest and lowest value per key; without values the highest is below the lowest."""
    limits = np.iinfo(np.int64)
    highest = np.full(count, limits.min, dtype=np.int64)
    lowest = np.full(count, limits.max, dtype=np.int64)
    np.maximum.at(highest, key, values)
    np.minimum.at(lowest, key, values)
    return highest, lowest


@dataclass
class _Part:
    """One rank's calls of the group in one profiling window, and how they lie on the reference's
    clock.
    """

    index: Ints
    calls: Calls
    line: Line | None = None
    reason: str = ""


def _match_by_order(calls: Calls, index: Ints, same_clock: SameClock, matches: Matches) -> None:
    """Align every rank with the rank that recorded most, then the leftovers with each other by
    time.
    """
    first = matches.next_instance
    by_rank = _split(calls, index, calls.rank[index])
    if len(by_rank) < 2:
        matches.refuse(index, ALONE)
        return
    for reference in sorted(by_rank, key=lambda part: -len(part.index))[:3]:
        others = [part for part in by_rank if part is not reference]
        parts = [p for o in others for p in _split(calls, o.index, calls.source[o.index])]
        instance = np.full(len(calls), -1, dtype=np.int64)
        instance[reference.index] = first + np.arange(len(reference.index))
        plain = _align_all(parts, reference, same_clock, instance)
        if sum(part.line is not None for part in parts) * 2 >= len(parts):
            break
    for part in parts:
        if part.line is None:
            matches.refuse(part.index, part.reason)
    reference.line = Line(0.0, 0.0, 0.0, 0.0)
    _match_rest([reference, *parts], instance)
    found = index[instance[index] >= 0]
    matches.accept(found, instance[found], "order" if plain else "sequence-aligned")


def _split(calls: Calls, index: Ints, key: Ints) -> list[_Part]:
    """The calls at `index`, apart by key, each in its old order."""
    return [
        _Part(chosen, calls.take(chosen)) for k in np.unique(key) for chosen in [index[key == k]]
    ]


def _align_all(parts: list[_Part], reference: _Part, same_clock: SameClock, instance: Ints) -> bool:
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


def _match_rest(parts: list[_Part], instance: Ints) -> None:
    """Match calls that the reference lacks, by time, against the part that has most of them, until
    none is left.
    """
    for _ in range(len(parts)):
        open_parts = []
        for part in parts[1:]:
            free = instance[part.index] < 0
            if part.line is not None and free.any():
                open_parts.append(_Part(part.index[free], part.calls.take(free), part.line))
        if len(open_parts) < 2:
            return
        lead, *others = sorted(open_parts, key=lambda part: -len(part.index))
        following = int(instance.max()) + 1
        instance[lead.index] = following + np.arange(len(lead.index))
        for part in others:
            if part.line is None or lead.line is None:
                continue
            partner = match_leftovers(part.calls, part.line, lead.calls, lead.line)
            found = partner >= 0
            instance[part.index[found]] = instance[lead.index[partner[found]]]


def _refuse_singles(calls: Calls, groups: list[Group], matches: Matches) -> None:
    """Take back instances that only one rank is part of, unless its group has no other member."""
    open_calls = np.flatnonzero((matches.instance < 0) & (matches.reason < 0))
    matches.refuse(open_calls, NO_TIME_FIT)
    matched = np.flatnonzero(matches.instance >= 0)
    if not len(matched):
        return
    instance = matches.instance[matched]
    highest, lowest = _extremes(instance, calls.rank[matched], int(instance.max()) + 1)
    single = (highest == lowest)[instance]
    lonely = np.array([group.size == 1 for group in groups])[calls.label[matched]]
    matches.refuse(matched[single & ~lonely], ALONE)


def _renumber(matches: Matches) -> None:
    """Count instances without holes, in the order they were found."""
    matched = matches.instance >= 0
    numbers = np.unique(matches.instance[matched], return_inverse=True)[1]
    matches.instance[matched] = numbers
