"""Messages that NCCL buffers: the send ends when its data lie in buffers, whether or not the
receive has begun.

A send waits for room, not for its receiver: for each channel a pair of ranks has eight slots of a
chunk (128 KiB over a network or PCIe, 512 KiB over NVLink, if no setting says otherwise), and up
to 32 channels. So the end of such a send says nothing of the other side; of the receive, that it
lies after the send's start. Ends coincide where the receive came first and waited. Which messages
fit depends on the link, on settings, on registered buffers and on what is still under way, so no
size tells by itself: messages of two ranks are known to be buffered where sends of their size or a
larger one ended before their receives began, on the clocks that those show which waited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.calls import RECV, SEND, Calls
from traceweave.matching.coarse_clocks import DRIFT_LIMIT, fit_line
from traceweave.medians import running_median

LONG = 3.0
"""A receive that takes as many times as long as the quickest tenth has waited for its send."""
QUICK = 10.0
"""Percentile of durations that says how long a receive takes that does not wait."""
PROOFS = 3
"""Sends of two ranks that end before their receives begin, at least, where messages as large as the
least of them are buffered."""
LEAST = 4
"""Receives that waited, from which clocks are known."""
SPARE_NS = 20_000.0
"""Ends of one message lie less far apart, beyond what they scatter."""


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
    index = index[np.lexsort((calls.op[index], instance[index]))]
    first = np.flatnonzero(np.diff(instance[index]) == 0)
    one, other = index[first], index[first + 1]
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
