"""Sequence numbers that do not mean the same on all ranks, found by what they lead to.

A group that was made anew under its old name, or a rank that counts one call more, gives equal
numbers to different operations. Such instances ask for clocks that differ from one to the next by
as much as the program lets pass in between: some end on one rank before they begin on another,
whatever the offset. A clock that steps does so at one place only.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.calls import PROVES, Calls
from traceweave.matching.coarse_clocks import DRIFT_LIMIT

WINDOW = 8
"""Instances that one offset has to explain."""
CANDIDATES = 3
"""Ranks that are tried as the one whose numbers are right."""
LIMIT_NS = 200_000.0
"""By how much a window has to contradict causality: more than a GPU's timestamps are ever off."""


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
