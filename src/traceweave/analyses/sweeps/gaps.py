"""When nothing ran: the stretches between ops, cut at the edges of windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import FOREVER, NEVER, Numbers, Truths, ascending, by_start


class Ops(NamedTuple):
    """What ran, and when the calls that launched it began and ended; NEVER for none."""

    starts: Numbers
    ends: Numbers
    ids: Numbers
    called: Numbers
    returned: Numbers


class Holes(NamedTuple):
    """Stretches of nothing, from before the first op to after the last."""

    free_from: Numbers
    """NEVER before the first op."""
    free_until: Numbers
    """FOREVER after the last."""
    before: Numbers
    """The op that ends it, -1 for none."""
    watched: Numbers
    """The op whose launching thread is to be watched: that one, or after the last op, this."""
    called: Numbers
    """Start of the call that launched the op that ends it; NEVER for none."""
    returned: Numbers
    """End of that call."""


def gaps(
    starts: Numbers,
    ends: Numbers,
    ids: Numbers,
    called: Numbers,
    returned: Numbers,
    window_starts: Numbers,
    window_ends: Numbers,
    limits: Numbers,
) -> tuple[Numbers, ...]:
    """Return the stretches in which no op ran, by windows, and sums over those of queued ops.

    Ops with equal starts are taken by their `ids`; `called` and `returned` are start and end of
    the call that launched each, NEVER where no call is recorded. Windows follow each other.
    `limits`: shortest length that counts; longest stretch that is a queued op's own delay.
    Columns: number of the window, from 1; start and end, cut at its edges; the columns of Holes,
    NEVER for FOREVER. Then what ended with an op launched in time, summed up and left out before:
    window, how many, their sum, the longest.
    """
    least = max(int(limits[0]), 1)
    holes = _holes(Ops(starts, ends, ids, called, returned), least)
    which, window = _meetings(holes.free_from, holes.free_until, window_starts, window_ends)
    begin = np.maximum(holes.free_from[which], window_starts[window])
    end = np.minimum(holes.free_until[which], window_ends[window])
    long = end - begin >= least
    if not bool(np.all(long)):
        which, window, begin, end = (column[long] for column in (which, window, begin, end))
    queued = _were_queued(holes, which, begin, end, int(limits[1]))
    kept = np.flatnonzero(~queued)
    cut = Holes(*(column[which[kept]] for column in holes))
    cut.free_until[cut.free_until == FOREVER] = NEVER
    return (
        *(window[kept] + 1, begin[kept], end[kept], *cut),
        *_sums(window[queued] + 1, (end - begin)[queued]),
    )


def _holes(ops: Ops, least: int) -> Holes:
    starts, ends = ops.starts, ops.ends
    order = by_start(starts, ops.ids)
    if order is not None:
        starts, ends = starts[order], ends[order]
    covered = np.maximum.accumulate(ends)
    before = np.flatnonzero(starts[1:] - covered[:-1] >= least) + 1
    watched = max(ops.ids[(ops.ends == covered[-1]) & (ops.called != NEVER)], default=-1)
    after = np.concatenate([np.zeros(1, np.intp), before])
    unsorted = after if order is None else order[after]
    return Holes(
        np.concatenate([[NEVER], covered[before - 1], covered[-1:]]),
        _and_last(starts, after, FOREVER),
        _and_last(ops.ids, unsorted, -1),
        _and_last(ops.ids, unsorted, int(watched)),
        _and_last(ops.called, unsorted, NEVER),
        _and_last(ops.returned, unsorted, NEVER),
    )


def _and_last(column: Numbers, places: npt.NDArray[np.intp], last: int) -> Numbers:
    """Return what stands at the places, and one more."""
    found = np.empty(len(places) + 1, np.int64)
    np.take(column, places, out=found[:-1])
    found[-1] = last
    return found


def _were_queued(holes: Holes, which: Numbers, begin: Numbers, end: Numbers, delay: int) -> Truths:
    """Tell which gaps are no longer than `delay` and ended with an op launched in time.

    `which`: the number of the hole that each gap, from `begin` to `end`, is part of.
    """
    if delay < 0:
        return np.zeros(len(which), bool)
    is_short = (holes.before >= 0) & (holes.called != NEVER)
    # nothing is known of the time before the first op
    is_short[1:] &= holes.free_until[1:] - holes.free_from[1:] <= delay
    since = holes.free_from[which]
    first = np.flatnonzero(since == NEVER)
    since[first] = begin[first]
    queued: Truths = is_short[which]
    queued[first] &= holes.free_until[0] - begin[first] <= delay
    called = holes.called[which]
    shared = np.minimum(holes.returned[which], end) - np.maximum(called, begin)
    queued &= (called < since) & (2 * shared <= end - begin)
    return queued


def _sums(keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return every key that occurs, ascending, how often it does, sum and maximum of its values."""
    order = ascending(keys)
    if order is not None:
        keys, values = keys[order], values[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(first):
        return keys, keys, keys, keys
    count = np.diff(first, append=len(keys))
    return keys[first], count, np.add.reduceat(values, first), np.maximum.reduceat(values, first)


def _meetings(
    starts: Numbers, ends: Numbers, window_starts: Numbers, window_ends: Numbers
) -> tuple[Numbers, Numbers]:
    """Return pairs of an interval and a window, by number, among them all that meet.

    Neither the intervals nor the windows overlap, and both are in order.
    """
    first = np.searchsorted(ends, window_starts, side="right")
    counts = np.maximum(np.searchsorted(starts, window_ends, side="left") - first, 0)
    offsets = first - (np.cumsum(counts) - counts)
    window = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(window)) + np.repeat(offsets, counts), window
