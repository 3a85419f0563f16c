"""Which calls of different ranks are one operation.

Within one group: by sequence number where the trace has one, else by aligning the ranks' sequences
(alignment.py), each against the rank that saw most. Sends pair with receives of the same two ranks.
A wrong match is worse than none: what does not fit stays unmatched, with a reason.

Sequence numbers that do not mean the same on all ranks, as of a group that was made anew under its
old name, are found by what they lead to (`misnumbered`): clocks that differ from one instance to
the next by as much as the program lets pass in between. A clock that steps does so at one place.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import align_pair
from traceweave.matching.buffered import pair_buffered
from traceweave.matching.by_order import match_by_order
from traceweave.matching.calls import PROVES, RECV, SEND, Calls, SameClock
from traceweave.matching.coarse_clocks import DRIFT_LIMIT
from traceweave.matching.groups import Group, Job
from traceweave.matching.messages_by_order import Messages
from traceweave.matching.open_calls import match_open
from traceweave.matching.outcome import (
    ALONE,
    COALESCED,
    DISAGREE,
    MISNUMBERED,
    NO_PEER,
    NO_SEQ,
    NO_TIME_FIT,
    ONE_SIDE,
    Matches,
)
from traceweave.matching.peers import fill_peers

WINDOW = 8
"""Instances that one offset has to explain."""
CANDIDATES = 3
"""Ranks that are tried as the one whose numbers are right."""
LIMIT_NS = 200_000.0
"""By how much a window has to contradict causality: more than a GPU's timestamps are ever off."""


def match_calls(
    calls: Calls, groups: list[Group], same_clock: SameClock, job: Job, messages: Messages
) -> Matches:
    """Match all calls of a run; `calls.label` holds the index of each call's group in `groups`,
    where groups are added that only calls show.

    `same_clock` tells whether two ranks are known to have one clock. Instances count from 0 in the
    order of groups; `messages` of host backends, which are known already, come last, since their
    ends tell nothing of clocks.
    """
    matches = Matches.empty(len(calls))
    order = np.argsort(calls.label, kind="stable")
    borders = np.searchsorted(calls.label[order], np.arange(len(groups) + 1))
    for number, group in enumerate(groups):
        index = order[borders[number] : borders[number + 1]]
        if group.open:
            continue
        pairwise = (calls.op[index] == SEND) | (calls.op[index] == RECV)
        _match_group(calls, index[~pairwise], group, same_clock, matches)
        pairwise &= ~calls.waited[index]
        fill_peers(calls, index[pairwise], group, job.complete)
        match_channels(calls, index[pairwise], same_clock, matches)
    match_open(calls, groups, same_clock, job, matches)
    _accept_messages(calls, messages, matches)
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
    has_seq, captured = calls.seq[index] >= 0, calls.captured[index]
    numbered = np.unique(calls.rank[index[has_seq]])
    bare = index[~has_seq & ~captured]
    never = np.setdiff1d(calls.rank[bare], numbered)
    replaying = np.unique(calls.rank[index[captured]])
    # ranks that never count were recorded by another profiler, or an older one; where some replay
    # what others call, the numbers of these go on
    if len(never) or not len(numbered) or 0 < len(replaying) < len(np.unique(calls.rank[index])):
        match_by_order(calls, index, same_clock, matches)
        return
    _match_by_seq(calls, index[has_seq], first, matches)
    matches.refuse(bare, NO_SEQ)
    if np.any(captured):
        match_by_order(calls, index[captured], same_clock, matches)


def _accept_messages(calls: Calls, messages: Messages, matches: Matches) -> None:
    by_id = np.argsort(calls.call_id)

    def places(numbers: Ints) -> Ints:
        return np.asarray(by_id[np.searchsorted(calls.call_id, numbers, sorter=by_id)])

    for reason, refused in messages.refused.items():
        matches.refuse(places(np.concatenate(refused)), reason)
    for sent, received in zip(messages.sent, messages.received, strict=True):
        instance = matches.next_instance + np.arange(len(sent))
        for side in (sent, received):
            matches.accept(places(side), instance, "order")


def _match_by_seq(calls: Calls, index: Ints, first: int, matches: Matches) -> None:
    """Calls of one number are one instance; several of one rank under one number count in their
    order.
    """
    rank, seq = calls.rank[index], calls.seq[index]
    numbers, number = np.unique(seq, return_inverse=True)
    key = number * (int(rank.max()) + 1) + rank
    _, run, count = np.unique(key, return_inverse=True, return_counts=True)
    turn = np.empty(len(index), dtype=np.int64)
    turn[np.argsort(key, kind="stable")] = np.arange(len(index)) - np.repeat(
        np.cumsum(count) - count, count
    )
    longest, shortest = _extremes(number, count[run], len(numbers))
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


def match_channels(calls: Calls, index: Ints, same_clock: SameClock, matches: Matches) -> None:
    """Pair the n-th send from i to j with the n-th recv of j from i, checked and repaired like any
    sequence.
    """
    if not len(index):
        return
    unknown = calls.peer[index] < 0
    matches.refuse(index[unknown], NO_PEER)
    index = index[~unknown]
    sends = calls.op[index] == SEND
    source = np.where(sends, calls.rank[index], calls.peer[index])
    target = np.where(sends, calls.peer[index], calls.rank[index])
    channels, channel = np.unique(np.c_[source, target], axis=0, return_inverse=True)
    for number, (i, j) in enumerate(channels):
        here = channel.reshape(-1) == number
        sent, received = index[here & sends], index[here & ~sends]
        if not len(sent) or not len(received):
            matches.refuse(index[here], ONE_SIDE)
            continue
        _pair(calls, sent, received, same_clock(int(i), int(j)), matches)


def _pair(calls: Calls, sent: Ints, received: Ints, known: bool, matches: Matches) -> None:
    a, b = calls.take(sent), calls.take(received)
    a.op[:] = b.op[:] = SEND
    alignment = align_pair(a, b, same_clock=known)
    partner, how = alignment.partner, "order" if alignment.plain else "sequence-aligned"
    if (partner >= 0).sum() < min(len(a), len(b)):
        send_of = pair_buffered(a, b, same_clock=known)
        found = np.flatnonzero(send_of >= 0)
        if len(found) > (partner >= 0).sum():
            partner, how = np.full(len(a), -1, dtype=np.int64), "sequence-aligned"
            partner[send_of[found]] = found
    if (partner < 0).all():
        matches.refuse(np.r_[sent, received], alignment.reason)
        return
    found = np.flatnonzero(partner >= 0)
    instance = matches.next_instance + np.arange(len(found))
    matches.accept(sent[found], instance, how)
    matches.accept(received[partner[found]], instance, how)


def misnumbered(calls: Calls, index: Ints, instance: Ints) -> Flags:
    """Return which of the calls at `index` are in stretches whose instances, as their sequence
    numbers make them, cannot be one operation each.

    `instance` ascends with the sequence number.
    """
    found = np.zeros(len(index), dtype=np.bool_)
    ranks, column = np.unique(calls.rank[index], return_inverse=True)
    proving = PROVES[calls.op[index]]
    rows = np.unique(instance[proving])
    if len(ranks) < 2 or len(rows) < WINDOW:
        return found
    start, end = np.full((2, len(rows), len(ranks)), np.nan)
    row = np.searchsorted(rows, instance)
    start[row[proving], column[proving]] = calls.start[index[proving]]
    end[row[proving], column[proving]] = calls.end[index[proving]]
    most = np.argsort(-np.isfinite(end).sum(axis=0), kind="stable")[:CANDIDATES]
    bad = min((_contradicting(start, end, int(c)) for c in most), key=lambda b: int(b.sum()))
    window = np.minimum(np.minimum(row, len(rows) - 1) // WINDOW, len(bad) - 1)
    return np.asarray(bad[window, column])


def _contradicting(start: Floats, end: Floats, reference: int) -> Flags:
    """Which windows (rows) of which ranks (columns) no offset against the reference explains, and
    their neighbours neither.
    """
    edges = np.arange(max(1, len(start) // WINDOW)) * WINDOW
    low = start[:, reference : reference + 1] - end
    high = end[:, reference : reference + 1] - start
    lowest = np.fmax.reduceat(low, edges)
    highest = np.fmin.reduceat(high, edges)
    last, first = np.fmax.reduceat(end, edges), np.fmin.reduceat(start, edges)
    with np.errstate(invalid="ignore"):
        bad = lowest - highest > LIMIT_NS + DRIFT_LIMIT * (last - first)
    if len(bad) == 1:
        return np.asarray(bad)
    beside = np.zeros_like(bad)
    beside[1:] |= bad[:-1]
    beside[:-1] |= bad[1:]
    # a step of a clock is in one window alone
    return np.asarray(bad & beside)
