"""Where things are among others: by number, by key and moment, and in stretches of time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from traceweave.arrays import Flags, Ints

_DENSE = 1 << 20
"""Numbers of so many different keys are looked up in a table, however few keys there are."""


def positions(keys: Ints, wanted: Ints) -> Ints:
    """Return where each of `wanted` is among `keys`, -1 for nowhere."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys, kind="stable")
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[place]
    return np.where(keys[found] == wanted, found, -1)


def numbered(*keys: Ints) -> tuple[Ints, int]:
    """Return a number for each row of keys, equal where they are and in their order, and how many
    different there are."""
    number, count = np.zeros(len(keys[0]), np.int64), 1
    for key in keys:
        low = int(key.min(initial=0))
        size = int(key.max(initial=0)) - low + 1
        both = number * size + (key - low)
        if count * size > max(_DENSE, 4 * len(both)):
            found, number = np.unique(both, return_inverse=True)
            count = len(found)
            continue
        there = np.zeros(count * size, bool)
        there[both] = True
        number, count = (np.cumsum(there) - 1)[both], int(np.sum(there))
    return number, count


def places(at: Ints, *keys: Ints) -> Ints:
    """Return the place of each row among those of the same keys, from 0, by their moments."""
    order = np.lexsort((at, *keys))
    number = np.arange(len(order))
    first = np.where(leads(*(key[order] for key in keys)), number, 0)
    place = np.empty(len(order), np.int64)
    place[order] = number - np.maximum.accumulate(first)
    return place


def most_common(keys: Ints) -> Flags:
    """Return which rows have the key that most have, of several the smallest."""
    found, count = np.unique(keys, return_counts=True)
    which: Flags = np.isin(keys, found[np.argsort(-count, kind="stable")[:1]])
    return which


def leads(*keys: Ints) -> Flags:
    """Return whether each row has other keys than the one before."""
    found: Flags = np.arange(len(keys[0])) == 0
    for key in keys:
        found[1:] |= key[1:] != key[:-1]
    return found


def stretches(*keys: Ints) -> list[tuple[int, int]]:
    """Return begin and end of rows in a row that have the same keys."""
    edges = np.append(np.flatnonzero(leads(*keys)), len(keys[0])).tolist()
    return list(pairwise(edges))


def least_behind(values: Ints, *keys: Ints) -> Ints:
    """Return the least of each value and of those behind it in rows in a row that have its keys."""
    found = values.copy()
    for begin, end in stretches(*keys):
        found[begin:end] = np.minimum.accumulate(values[begin:end][::-1])[::-1]
    return found


def latest(keys: Ints, at: Ints, asked: Ints, when: Ints) -> Ints:
    """Return the last row, by moment, that has the key of each asked and is no later; -1: none."""
    # of the same moment rows come before what is asked
    order = np.lexsort((np.append(at, when), np.append(keys, asked)))
    row = np.maximum.accumulate(np.where(order < len(keys), np.arange(len(order)), -1))
    found = np.empty(len(order), np.int64)
    found[order] = np.where(row >= 0, order[row], -1)
    found = found[len(keys) :]
    return np.where((found >= 0) & (np.append(keys, -1)[found] == asked), found, -1)


def soonest(keys: Ints, at: Ints, asked: Ints, when: Ints) -> Ints:
    """Return the first row, by moment, that has the key of each asked and is no earlier, or -1."""
    found = latest(keys[::-1], -at[::-1], asked, -when)
    return np.where(found >= 0, len(keys) - 1 - found, -1)


class Union:
    """Stretches of time, those that touch or overlap as one."""

    def __init__(self, start: Ints, end: Ints) -> None:
        order = np.argsort(start, kind="stable")
        start, until = start[order], np.maximum.accumulate(end[order])
        first = np.append(True, start[1:] > until[:-1])[: len(start)]
        self._begins = start[first]
        self._ends = until[np.append(first[1:], True)[: len(start)]]
        self._lengths = np.append(0, np.cumsum(self._ends - self._begins))

    def covered(self, since: Ints, until: Ints) -> Ints:
        """Return how much of each time between two moments is in one of the stretches, ns."""
        found: Ints = self._up_to(np.maximum(until, since)) - self._up_to(since)
        return found

    def gaps(self, since: Ints, until: Ints) -> Ints:
        """Return how much of each time between two moments is in none of the stretches, ns."""
        found: Ints = np.maximum(until - since, 0) - self.covered(since, until)
        return found

    def holds(self, at: Ints) -> Flags:
        """Return whether each moment is in one of the stretches, their ends included."""
        place = np.searchsorted(self._begins, at, side="right")
        found: Flags = (place > 0) & (at <= np.append(0, self._ends)[place])
        return found

    def _up_to(self, at: Ints) -> Ints:
        place = np.searchsorted(self._begins, at, side="right")
        past = np.maximum(np.append(0, self._ends)[place] - at, 0)
        found: Ints = self._lengths[place] - past
        return found
