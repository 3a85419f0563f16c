"""Whether ranks that are alike would have one that others wait for as often and as long."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import Numbers

Probabilities = npt.NDArray[np.float64]

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
    ranks, column = np.unique(rank, return_inverse=True)
    trials, row = np.unique(trial, return_inverse=True)
    waits = np.full((len(trials), len(ranks)), -1, np.int64)
    waits[row, column] = wait_ns
    places = _places(waits)
    # many ranks took part in the same trials
    known: dict[bytes, Probabilities] = {}
    found = np.empty(len(ranks))
    for own in range(len(ranks)):
        there = waits[:, own] >= 0
        if there.tobytes() not in known:
            known[there.tobytes()] = _at_least(places[there])
        at_least = known[there.tobytes()]
        found[own] = at_least[places[there, own].sum()] * _evenness(waits[there], own)
    return ranks, np.minimum(1, len(ranks) * found)


def _places(waits: Numbers) -> Numbers:
    """Return the place of each wait among all of them: equal ones alike, 0 for none, -1 for those
    that took no part."""
    lengths, place = np.unique(waits, return_inverse=True)
    place = place.reshape(waits.shape) - np.searchsorted(lengths, 0, "right") + 1
    largest = place.max(axis=1).sum()
    if largest > FINEST:
        place = np.rint(place * (FINEST / largest)).astype(np.int64)
    return np.where(waits > 0, place, np.minimum(waits, 0))


def _at_least(places: Numbers) -> Probabilities:
    """Return the probability of each sum or a larger one, drawing one place from each row."""
    sums = np.zeros(places.max(axis=1).sum() + 1)
    sums[0] = 1
    for row in places:
        values, counts = np.unique(row[row >= 0], return_counts=True)
        before, sums = sums / counts.sum(), np.zeros_like(sums)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            sums[value:] += count * before[: len(before) - value]
    return np.cumsum(sums[::-1])[::-1]


def _evenness(waits: Numbers, own: int) -> float:
    """Return how likely a rank that was the worst in all trials was that by such even amounts; 1
    for any other.

    By how much the worst of ranks that are alike is ahead of the next is the less frequent the more
    it is. Of n such amounts all are then as near to the largest one as the least is with the
    highest probability if each amount up to it is as likely. What they are all multiples of may be
    the resolution of the times.
    """
    ahead = waits[:, own] - np.delete(waits, own, axis=1).max(axis=1, initial=0)
    if ahead.min() <= 0:
        return 1.0
    spread = min(ahead.max() - ahead.min() + np.gcd.reduce(ahead), ahead.max())
    return float((spread / ahead.max()) ** (len(ahead) - 1))
