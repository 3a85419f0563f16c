"""The sends of one rank to another paired with its receives by order, where ends do not tell, since
NCCL buffers them (buffered.py).

Only receives that waited end with their sends. Steps in which both ranks have equally many show
which belong together, else votes do. They tell the clocks, and between two of them under one shift,
and in such steps, order tells the rest.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.matching.alignment import near_line
from traceweave.matching.buffered import LEAST, PROOFS, Ahead, clocks_of, waited
from traceweave.matching.calls import Calls, agree
from traceweave.matching.shifts import SAME_CLOCK_NS, WALL_CLOCK_NS
from traceweave.matching.voting import vote

TIGHT_NS = 100_000.0
"""Ends of receives that waited lie less far off their sends', or they are other messages'."""


def pair_buffered(sent: Calls, received: Calls, *, same_clock: bool) -> Ints:
    """Return the send of every receive, -1 where none is sure; of all, where ends do not show that
    sends are buffered, or tell no clocks.
    """
    nobody = np.full(len(received), -1, dtype=np.int64)
    long = np.flatnonzero(waited(received.end - received.start))
    partner = _by_steps(sent, received)
    clocks = _clocks(sent, received, long, partner)
    if clocks is None:
        partner = _by_votes(sent, received, long, same_clock)
        clocks = _clocks(sent, received, long, partner)
    if clocks is None:
        return nobody
    _drop_denied(sent, received, partner, clocks)
    _fill_between(sent, received, _sure(sent, received, long, partner, clocks), partner)
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
    seed = vote(few, sent, SAME_CLOCK_NS if same_clock else WALL_CLOCK_NS, some=False)
    if seed is not None:
        partner[long], _ = near_line(few, sent, seed)
    return partner


def _clocks(sent: Calls, received: Calls, long: Ints, partner: Ints) -> Ahead | None:
    """How far the sender's clock is ahead, by receives that waited; None where their ends do not
    lie together."""
    known = long[partner[long] >= 0]
    found = clocks_of(received.end[known], sent.end[partner[known]] - received.end[known])
    return None if found is None or found.spare > TIGHT_NS else found


def _late(sent: Calls, i: Ints, received: Calls, j: Ints, clocks: Ahead) -> tuple[Flags, Flags]:
    """Which sends end later than their receives, and which receives later than their sends."""
    least, most = clocks.between(received.end[j].astype(np.float64))
    ahead = sent.end[i] - received.end[j]
    return ahead > most, ahead < least


def _drop_denied(sent: Calls, received: Calls, partner: Ints, clocks: Ahead) -> None:
    """Take back partners in steps in which a send ends later than its receive: there one of each
    was lost."""
    i = np.flatnonzero(partner >= 0)
    denied, _ = _late(sent, partner[i], received, i, clocks)
    partner[np.isin(received.step, received.step[i[denied]]) & (received.step >= 0)] = -1


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


def _fill_between(sent: Calls, received: Calls, shift: Ints, partner: Ints) -> None:
    """Give receives among those whose shift is sure theirs, as far as both sides have the same."""
    none = -len(received) - len(sent)
    sure = np.flatnonzero(shift > none)
    for low, high in pairwise(sure.tolist()):
        if shift[low] == shift[high]:
            j = np.arange(low, high + 1)
            j = j[agree(received, j, sent, j + shift[low])]
            partner[j] = j + shift[low]
    # which shift is right where two give a send to different receives, nothing tells
    order = np.flatnonzero(partner >= 0)
    crossing = np.flatnonzero(np.diff(partner[order]) <= 0)
    partner[order[np.r_[crossing, crossing + 1]]] = -1
