"""How long something had run up to given moments: lengths of unions of intervals."""

from __future__ import annotations

import numpy as np

from traceweave.analyses.sweeps.times import Bits, Numbers, ascending

UNIONS = {
    "compute_ns": 1,
    "comm_ns": 2,
    "memory_ns": 4,
    "busy_ns": 3,
    "compute_memory_ns": 5,
    "comm_memory_ns": 6,
    "any_ns": 7,
    "compute_transfer_ns": 9,
    "compute_parts_ns": 25,
}
"""Columns of tw_busy_until by what is in the union: 1 compute, 2 communication, 4 memory, and of
communication whose parts are known, 8 transfer, 16 waiting."""


def busy_until(starts: Numbers, ends: Numbers, kinds: Bits, at: Numbers) -> tuple[Numbers, ...]:
    """Return how long work of each kind, and of any of two and three of them, had run up to `at`.

    One array of lengths of unions per column of `tw_busy_until`.
    """
    order = ascending(starts)
    if order is not None:
        starts, ends, kinds = starts[order], ends[order], kinds[order]
    # the same memory for all unions: the system's zeroing new pages would take most of the time
    spare = np.empty((3, len(starts)), np.int64)
    there = int(np.bitwise_or.reduce(kinds, initial=0))
    known: dict[int, Numbers] = {0: np.zeros(len(at), np.int64)}
    for wanted in UNIONS.values():
        mask = wanted & there
        if mask not in known:
            # what is of another kind adds nothing if it has no length
            np.copyto(spare[0], starts)
            np.copyto(spare[0], ends, where=np.bitwise_and(kinds, mask) != 0)
            known[mask] = _union_until(starts, spare, at)
    return tuple(known[wanted & there] for wanted in UNIONS.values())


def union_until(starts: Numbers, ends: Numbers, at: Numbers) -> tuple[Numbers]:
    """Return the length of the union of intervals up to each of `at`."""
    order = ascending(starts)
    if order is not None:
        starts, ends = starts[order], ends[order]
    spare = np.empty((3, len(starts)), np.int64)
    spare[0] = ends
    return (_union_until(starts, spare, at),)


def _union_until(starts: Numbers, spare: Numbers, at: Numbers) -> Numbers:
    """Return the length of the union of intervals, sorted by their starts, up to each of `at`.

    Their ends are the first row of `spare`, which is overwritten.
    """
    added, covered, free_from = spare
    np.maximum.accumulate(added, out=covered)
    free_from[:1] = starts[:1]
    np.maximum(starts[1:], covered[:-1], out=free_from[1:])
    np.subtract(added, free_from, out=added)
    total = np.cumsum(np.maximum(added, 0, out=added), out=added)
    last = np.searchsorted(starts, at, side="right") - 1
    reached = np.zeros(len(at), np.int64)
    there = last >= 0
    last = last[there]
    reached[there] = total[last] - np.maximum(covered[last] - at[there], 0)
    return reached


def within(at: Numbers, since: Numbers, until: Numbers) -> tuple[Numbers]:
    """Return how many of the moments `at` are from each `since` to its `until`, both included."""
    order = ascending(at)
    at = at if order is None else at[order]
    return (np.searchsorted(at, until, side="right") - np.searchsorted(at, since),)
