"""How much of a stretch of time lies within any of many."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Ints


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

    def _up_to(self, at: Ints) -> Ints:
        place = np.searchsorted(self._begins, at, side="right")
        past = np.maximum(np.append(0, self._ends)[place] - at, 0)
        found: Ints = self._lengths[place] - past
        return found
