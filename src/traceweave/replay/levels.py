"""Replay of many cases at once: when every run ends, where nodes take only their lengths.

Runs that depend on none are one level, those that depend on these the next, and so on. A level is
worked out for all its runs and all cases together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.engine import Lengths, Runs, times
from traceweave.replay.nodes import CALL, Nodes

CELLS = 1 << 24
"""Runs times cases that are replayed at a time; each takes 8 bytes twice."""


@dataclass(frozen=True)
class Levels:
    """Runs, and what they depend on, level by level."""

    order: Ints
    """The runs."""
    begins: Ints
    """Where in `order` each level begins, and the end."""
    source: Ints
    """What each run in turn depends on, as places in `order`."""
    sources_of: Ints
    """Where the sources of each begin, and the end."""
    at_start: Flags
    """Whether a run depends on the start of the source, not on its end."""

    def ends(self, takes: Iterable[Ints]) -> Iterator[Ints]:
        """Yield when each run ends, for every case: how long each run takes."""
        cases = iter(takes)
        while some := list(islice(cases, max(CELLS // len(self.order), 1))):
            length = np.stack([case[self.order] for case in some], axis=1)
            ends = np.empty_like(length)
            ends[self.order] = self._ends(length)
            yield from ends.T

    def _ends(self, length: Ints) -> Ints:
        ends = length.copy()
        # what depends on nothing begins at 0
        for begin, end in pairwise(self.begins[1:].tolist()):
            at = self.sources_of[begin:end]
            sources = slice(int(at[0]), int(self.sources_of[end]))
            source, at_start = self.source[sources], self.at_start[sources]
            ready = ends[source]
            ready[at_start] -= length[source[at_start]]
            ends[begin:end] += np.maximum.reduceat(ready, at - at[0], axis=0)
        return ends


def levels_of(nodes: Nodes, runs: Runs) -> Levels:
    """Return the levels of runs whose nodes have neither delays nor lags.

    Operators that launch others have to begin their runs; calls take no time.
    """
    count = len(runs.first)
    # a replay in which every run takes 1 counts them, and one more after the start of another
    one = np.ones(count, np.int64)
    _, level = times(nodes, runs, Lengths(one, 2 * one))
    order = np.argsort(level, kind="stable")
    place = np.empty(count, np.int64)
    place[order] = np.arange(count)
    begins = np.flatnonzero(np.diff(level[order], prepend=0, append=0))

    chained = np.flatnonzero(nodes.follows[runs.first])
    launched = np.flatnonzero(runs.launched_by >= 0)
    by = runs.launched_by[launched]
    source = np.concatenate([runs.edges.source, chained - 1, by])
    target = place[np.concatenate([runs.edges.target, chained, launched])]
    at_start = np.zeros(len(source), bool)
    at_start[len(source) - len(by) :] = nodes.sort[runs.first[by]] < CALL
    by_target = np.argsort(target, kind="stable")
    sources_of = np.searchsorted(target[by_target], np.arange(count + 1))
    return Levels(order, begins, place[source[by_target]], sources_of, at_start[by_target])
