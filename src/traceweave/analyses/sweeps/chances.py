"""Whether ranks that are alike would have one that others wait for as often and as long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import Numbers

Probabilities = npt.NDArray[np.float64]
Draw = tuple[list[int], list[float]]
"""The places that may be drawn in a trial, ascending, and how likely each is."""

FINEST = 1 << 14
"""Sums of places are told apart to this part of the largest one that there could be."""


def chances(trial: Numbers, rank: Numbers, wait_ns: Numbers) -> tuple[npt.NDArray[np.generic], ...]:
    """Return each rank, and the probability that of as many that are alike one is as late.

    One element per trial and rank that took part in it: for how long others waited for it. Of ranks
    that are alike each wait of a trial might as well have fallen to any other of them, whatever
    waits are distributed like. All waits take their places by length, so that one long pause counts
    little more than the next; the probability is that of a sum of places as large as the rank's if
    each trial draws one of its own at random, times the number of ranks (Bonferroni).
    """
    ranks, own = np.unique(rank, return_inverse=True)
    _, row = np.unique(trial, return_inverse=True)
    place = _places(row, wait_ns)
    ahead = _ahead(row, wait_ns)
    draws = _draws(row, place)
    # many ranks took part in the same trials
    known: dict[bytes, Probabilities] = {}
    found = np.empty(len(ranks))
    order = np.lexsort((row, own))
    for one, its in enumerate(np.split(order, np.flatnonzero(np.diff(own[order])) + 1)):
        rows = row[its]
        if rows.tobytes() not in known:
            known[rows.tobytes()] = _at_least([draws[of] for of in rows.tolist()])
        found[one] = known[rows.tobytes()][place[its].sum()] * _evenness(ahead[its])
    return ranks, np.minimum(1, len(ranks) * found)


def _places(row: Numbers, waits: Numbers) -> Numbers:
    """Return the place of each wait among all of them: equal ones alike, 0 for none."""
    lengths, place = np.unique(waits, return_inverse=True)
    place = place + int(lengths[0] > 0)
    largest = np.zeros(row.max() + 1, np.int64)
    np.maximum.at(largest, row, place)
    if largest.sum() > FINEST:
        place = np.rint(place * (FINEST / largest.sum())).astype(np.int64)
    return np.asarray(place)


def _ahead(row: Numbers, waits: Numbers) -> Numbers:
    """Return by how much each wait of a trial is longer than the longest of the others."""
    order = np.lexsort((waits, row))
    last = np.flatnonzero(np.diff(row[order], append=-1))
    longest, next_to_it = waits[order[last]], np.zeros(len(last), np.int64)
    several = np.diff(last, prepend=-1) > 1
    next_to_it[several] = waits[order[last[several] - 1]]
    other = longest[row]
    other[order[last]] = next_to_it
    return np.asarray(waits - other)


def _draws(row: Numbers, place: Numbers) -> list[Draw]:
    """Return what may be drawn in each trial."""
    most = int(place.max()) + 1
    both, counts = np.unique(row * most + place, return_counts=True)
    share = counts / np.bincount(row)[both // most]
    edges = np.flatnonzero(np.diff(both // most)) + 1
    each = zip(np.split(both % most, edges), np.split(share, edges), strict=True)
    return [(places.tolist(), shares.tolist()) for places, shares in each]


def _at_least(draws: list[Draw]) -> Probabilities:
    """Return the probability of each sum or a larger one, drawing one place in each trial."""
    sums = np.ones(1)
    for places, shares in sorted(draws, key=lambda draw: draw[0][-1]):
        before, sums = sums, np.zeros(len(sums) + places[-1])
        for place, share in zip(places, shares, strict=True):
            sums[place : place + len(before)] += share * before
    return np.cumsum(sums[::-1])[::-1]


def _evenness(ahead: Numbers) -> float:
    """Return how likely a rank that was the worst in all trials was that by such even amounts; 1
    for any other.

    By how much the worst of ranks that are alike is ahead of the next is the less frequent the more
    it is. Of n such amounts all are then as near to the largest one as the least is with the
    highest probability if each amount up to it is as likely. What they are all multiples of may be
    the resolution of the times.
    """
    if ahead.min() <= 0:
        return 1.0
    spread = min(ahead.max() - ahead.min() + np.gcd.reduce(ahead), ahead.max())
    return float((spread / ahead.max()) ** (len(ahead) - 1))
