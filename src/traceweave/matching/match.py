"""Which calls of different ranks are one operation.

Within one group: by sequence number where the trace has one, else by aligning the ranks' sequences
(alignment.py), each against the rank that saw most. Sends pair with receives of the same two ranks.
A wrong match is worse than none: what does not fit stays unmatched, with a reason.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.by_order import match_by_order
from traceweave.matching.calls import RECV, SEND, Calls
from traceweave.matching.groups import Group
from traceweave.matching.job import Job
from traceweave.matching.messages_by_order import Messages
from traceweave.matching.misnumbered import misnumbered
from traceweave.matching.open_calls import match_open
from traceweave.matching.outcome import (
    ALONE,
    COALESCED,
    DISAGREE,
    MISNUMBERED,
    NO_SEQ,
    NO_TIME_FIT,
    Matches,
)
from traceweave.matching.peers import fill_peers
from traceweave.matching.calls import SameClock, match_channels


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
    seq = calls.seq[index]
    numbered = np.unique(calls.rank[index][seq >= 0])
    bare = np.unique(calls.rank[index][seq < 0])
    # ranks that never count were recorded by another profiler, or an older one
    if len(numbered) and not len(np.setdiff1d(bare, numbered)):
        _match_by_seq(calls, index[seq >= 0], first, matches)
        matches.refuse(index[seq < 0], NO_SEQ)
    else:
        match_by_order(calls, index, same_clock, matches)


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
