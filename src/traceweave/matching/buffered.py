"""Messages that NCCL buffers: the send ends when its data lie in buffers, whether or not the
receive has begun.

A send waits for room, not for its receiver: for each channel a pair of ranks has eight slots of a
chunk (128 KiB over a network or PCIe, 512 KiB over NVLink, if no setting says otherwise), and up
to 32 channels. So the end of such a send says nothing of the other side; of the receive, that it
lies after the send's start. Ends coincide where the receive came first and waited. Which messages
fit depends on the link, on settings, on registered buffers and on what is still under way, so no
size tells by itself: messages of two ranks are known to be buffered where sends of their size or a
larger one ended before their receives began, on the clocks that those show which waited.

Of those, order tells the pairs (`pair_buffered`): steps in which both ranks have equally many show
which receives that waited belong to which sends, else votes do. These tell the clocks, and between
two of them under one shift, and in such steps, order tells the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import near_line
from traceweave.matching.calls import RECV, SEND, Calls, agree
from traceweave.matching.coarse_clocks import DRIFT_LIMIT, fit_line
from traceweave.matching.outcome import sides
from traceweave.matching.voting import vote
from traceweave.medians import running_median

LONG = 3.0
"""A receive that takes as many times as long as the quickest tenth has waited for its send."""
QUICK = 10.0
"""Percentile of durations that says how long a receive takes that does not wait."""
PROOFS = 3
"""Sends of two ranks that end before their receives begin, at least, where messages as large as the
least of them are buffered."""
LEAST = 4
"""Calls of two ranks that end together, from which clocks are known."""
SPARE_NS = 20_000.0
"""Ends of one message lie less far apart, beyond what they scatter."""

TIGHT_NS = 100_000.0
"""Ends of receives that waited lie less far off their sends', or they are other messages'."""


def waited(took: Ints, size: Ints) -> Flags:
    """Return which of some receives have waited for their sends, by how long they took beside
    others of their size (within a factor of two)."""
    found = np.zeros(len(took), dtype=np.bool_)
    sort = _sorts(size)
    for one in np.unique(sort):
        mine = sort == one
        found[mine] = took[mine] >= LONG * np.percentile(took[mine], QUICK)
    return found


def _sorts(size: Ints) -> Ints:
    """The power of two that each size reaches; that of 0 is 0."""
    return np.frexp(size.astype(np.float64))[1].astype(np.int64)


@dataclass(frozen=True)
class Ahead:
    """How far one clock is ahead of another, by the ends of messages whose receives waited."""

    at: Floats
    """When, ascending, on the other clock."""
    by: Floats
    spare: float
    """How far, ns, ends lie off this."""

    def between(self, times: Floats) -> tuple[Floats, Floats]:
        """Return the least and the most that the clock may be ahead at each time: a step lies
        between two messages, and before the first and after the last the clock may drift on."""
        after = np.clip(np.searchsorted(self.at, times), 0, len(self.at) - 1)
        before = np.maximum(after - 1, 0)
        beside = np.stack([self.by[before], self.by[after]])
        beyond = np.maximum(np.maximum(self.at[0] - times, times - self.at[-1]), 0.0)
        spare = self.spare + DRIFT_LIMIT * beyond
        return beside.min(axis=0) - spare, beside.max(axis=0) + spare


def clocks_of(at: Ints, ahead: Ints) -> Ahead | None:
    """Return what ends of messages, ahead by so much at these times, say of two clocks; None of
    too few."""
    if len(at) < LEAST:
        return None
    order = np.argsort(at, kind="stable")
    when, by = at[order].astype(np.float64), ahead[order].astype(np.float64)
    # a drift is no scatter, and at the edges medians would lag behind it
    line = fit_line(when, by)
    drifted = line.drift * (when - line.at)
    smooth = running_median(by - drifted) + drifted
    spare = SPARE_NS + 3 * float(np.median(np.abs(by - smooth)))
    return Ahead(when, smooth, spare)


def ends_coincide(calls: Calls, instance: Ints) -> Flags:
    """Return which calls are matched (instance >= 0) and end when the other sides of their instance
    do, so that they tell clocks: not what ends when somebody waits for it (gloo's sends and
    receives, receive halves), nor buffered messages whose receive did not come first.
    """
    found = (instance >= 0) & ~calls.waited
    sent, received = _pairs(calls, instance, found)
    if not len(sent):
        return found
    ranks = np.sort(np.c_[calls.rank[sent], calls.rank[received]], axis=1)
    order = np.lexsort(ranks.T[::-1])
    edges = np.flatnonzero((np.diff(ranks[order], axis=0) != 0).any(axis=1)) + 1
    for mine in np.split(order, edges):
        if len(mine) >= LEAST + PROOFS:
            apart = mine[_apart(calls, sent[mine], received[mine])]
            found[sent[apart]] = found[received[apart]] = False
    return found


def _pairs(calls: Calls, instance: Ints, matched: Flags) -> tuple[Ints, Ints]:
    """The sends and the receives of matched messages, side by side."""
    index = np.flatnonzero(matched & ((calls.op == SEND) | (calls.op == RECV)))
    one, other = sides(instance, index, calls.op)
    both = (calls.op[one] == SEND) & (calls.op[other] == RECV)
    return one[both], other[both]


def _apart(calls: Calls, sent: Ints, received: Ints) -> Flags:
    """Which messages of two ranks have ends that need not coincide."""
    nothing = np.zeros(len(sent), dtype=np.bool_)
    forth = calls.rank[sent] < calls.rank[received]
    sides = sent, received
    lower, upper = (np.where(forth, *sides[::way]) for way in (1, -1))
    size = calls.size[received]
    long = waited(calls.end[received] - calls.start[received], size)
    ahead = calls.end[upper] - calls.end[lower]
    clocks = clocks_of(calls.end[lower][long], ahead[long])
    if clocks is None:
        return nothing
    least, most = clocks.between(calls.end[lower].astype(np.float64))
    # by how much the receiver's clock is ahead of the sender's, at most and at least
    most, least = np.where(forth, most, -least), np.where(forth, least, -most)
    before = calls.start[received] - calls.end[sent] > most
    if before.sum() < PROOFS:
        return nothing
    # what buffers hold of a size they hold of a smaller one
    sort = _sorts(size)
    largest = np.sort(sort[before])[-PROOFS]
    late = calls.start[received] - calls.start[sent] > least
    return np.asarray(late & ((sort <= largest) | before))


def pair_buffered(sent: Calls, received: Calls, *, same_clock: bool) -> Ints:
    """Return the send of every receive, -1 where none is sure; of all, where ends do not show that
    sends are buffered, or tell no clocks.
    """
    nobody = np.full(len(received), -1, dtype=np.int64)
    long = np.flatnonzero(waited(received.end - received.start, received.size))
    partner = _by_steps(sent, received)
    clocks = _clocks(sent, received, long, partner)
    if clocks is None:
        partner = _by_votes(sent, received, long, same_clock)
        clocks = _clocks(sent, received, long, partner)
    if clocks is None:
        return nobody
    shift = _sure(sent, received, long, partner, clocks)
    _fill_between(sent, received, long, shift, partner)
    i = np.flatnonzero(partner >= 0)
    least, most = clocks.between(received.end[i].astype(np.float64))
    before = received.start[i] + least > sent.end[partner[i]]
    after = sent.start[partner[i]] > received.end[i] + most
    partner[i[after]] = -1
    return partner if np.sum(before & ~after) >= PROOFS else nobody


def _by_steps(sent: Calls, received: Calls) -> Ints:
    """Partners by order in the steps of which both ranks show equally many."""
    partner = np.full(len(received), -1, dtype=np.int64)
    steps, count = np.unique(received.step, return_counts=True)
    others, many = np.unique(sent.step, return_counts=True)
    _, i, j = np.intersect1d(steps, others, assume_unique=True, return_indices=True)
    even = steps[i[(count[i] == many[j]) & (steps[i] >= 0)]]
    mine, theirs = (_in_steps(calls.step, even) for calls in (received, sent))
    apart = ~agree(received, mine, sent, theirs)
    partner[mine] = np.where(np.isin(received.step[mine], received.step[mine[apart]]), -1, theirs)
    return partner


def _in_steps(step: Ints, steps: Ints) -> Ints:
    """Places of the calls of some steps, step by step."""
    order = np.argsort(step, kind="stable")
    return np.asarray(order[np.isin(step[order], steps)])


def _by_votes(sent: Calls, received: Calls, long: Ints, same_clock: bool) -> Ints:
    """Partners of receives that waited by time alone."""
    partner = np.full(len(received), -1, dtype=np.int64)
    few = received.take(long)
    if len(few) < LEAST:
        return partner
    seed = vote(few, sent, same_clock=same_clock, some=False)
    if seed is not None:
        partner[long], _ = near_line(few, sent, seed)
    return partner


def _clocks(sent: Calls, received: Calls, long: Ints, partner: Ints) -> Ahead | None:
    """How far the sender's clock is ahead, by receives that waited; None where their ends do not
    lie together."""
    known = long[partner[long] >= 0]
    ahead = sent.end[partner[known]] - received.end[known]
    found = clocks_of(received.end[known], ahead)
    return None if found is None or found.spare > TIGHT_NS else found


def _late(sent: Calls, i: Ints, received: Calls, j: Ints, clocks: Ahead) -> tuple[Flags, Flags]:
    """Which sends end later than their receives, and which receives later than their sends."""
    least, most = clocks.between(received.end[j].astype(np.float64))
    ahead = sent.end[i] - received.end[j]
    return ahead > most, ahead < least


def _sure(sent: Calls, received: Calls, long: Ints, partner: Ints, clocks: Ahead) -> Ints:
    """The shift, from receives to sends, of each that waited and ends with its send under that of
    those known before or after it; one that none can have of others."""
    none = -len(received) - len(sent)
    shift = np.full(len(received), none, dtype=np.int64)
    known = np.flatnonzero(partner >= 0)
    if not len(known):
        return shift
    after = np.clip(np.searchsorted(known, long), 0, len(known) - 1)
    for place in (np.maximum(after - 1, 0), after):
        own = partner[known[place]] - known[place]
        inside = (long + own >= 0) & (long + own < len(sent))
        j, i = long[inside], (long + own)[inside]
        late = np.logical_or(*_late(sent, i, received, j, clocks))
        fits = agree(sent, i, received, j) & ~late
        shift[j[fits]] = own[inside][fits]
    return shift


def _fill_between(sent: Calls, received: Calls, long: Ints, shift: Ints, partner: Ints) -> None:
    """Give receives among those whose shift is sure theirs, as far as both sides have the same;
    none where one among them has waited and does not end with its send: there one of each was lost.
    """
    none = -len(received) - len(sent)
    sure = np.flatnonzero(shift > none)
    unsure = np.setdiff1d(long, sure)
    for low, high in pairwise(sure.tolist()):
        if np.searchsorted(unsure, low) < np.searchsorted(unsure, high):
            partner[low + 1 : high] = -1
        elif shift[low] == shift[high]:
            j = np.arange(low, high + 1)
            j = j[agree(received, j, sent, j + shift[low])]
            partner[j] = j + shift[low]
    # which shift is right where two give a send to different receives, nothing tells
    order = np.flatnonzero(partner >= 0)
    crossing = np.flatnonzero(np.diff(partner[order]) <= 0)
    partner[order[np.r_[crossing, crossing + 1]]] = -1
