"""When nothing ran: the stretches between ops, cut at the edges of windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceweave.analyses.sweeps.times import FOREVER, NEVER, Numbers, Truths, ascending, by_start


class Ops(NamedTuple):
    """What ran, and when the calls that launched it began and ended; NEVER for none.

    Of a call that was not recorded the end may be known, or a moment by which it had ended.
    """

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
    after: Numbers
    """The op that ended last before it, the largest of several; -1 for none."""
    before: Numbers
    """The op that ends it, -1 for none."""
    watched: Numbers
    """The op whose launching thread is to be watched: that one, or after the last op, this."""
    called: Numbers
    """Start of the call that launched the op that ends it; NEVER for none."""
    returned: Numbers
    """End of that call."""


UNKNOWN, HOST, DEVICE = range(3)
"""Whose a part of a gap is: no launch is recorded; before the launching call returned; after."""


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
    """Return the stretches in which no op ran, by windows, each cut where its launch returned.

    Ops with equal starts are taken by their `ids`; `called` and `returned` are start and end of
    the call that launched each, NEVER where no call is recorded. Windows follow each other.
    `limits`: shortest length that counts; longest part that is a launched op's own delay.
    Columns: number of the window, from 1; whose the part is; start and end; length of the whole gap
    within the window; the columns of Holes, NEVER for FOREVER. Then the parts that are an op's own
    delay, summed up and left out before: window, how many, their sum, the longest.
    """
    least = max(int(limits[0]), 1)
    holes = _holes(Ops(starts, ends, ids, called, returned), least)
    which, window = _meetings(holes.free_from, holes.free_until, window_starts, window_ends)
    begin = np.maximum(holes.free_from[which], window_starts[window])
    end = np.minimum(holes.free_until[which], window_ends[window])
    long = end - begin >= least
    if not bool(np.all(long)):
        which, window, begin, end = (column[long] for column in (which, window, begin, end))
    launched, cut = _cuts(holes, which, begin, end)
    delayed = (end > cut) & _are_short(holes, which, int(limits[1]))
    gap, after = np.nonzero(np.stack([cut > begin, (end > cut) & ~delayed], axis=1))
    kept = Holes(*(column[which[gap]] for column in holes))
    kept.free_until[kept.free_until == FOREVER] = NEVER
    return (
        window[gap] + 1,
        np.where(after, DEVICE, np.where(launched[gap], HOST, UNKNOWN)),
        np.where(after, cut[gap], begin[gap]),
        np.where(after, end[gap], cut[gap]),
        (end - begin)[gap],
        *kept,
        *_sums(window[delayed] + 1, (end - cut)[delayed]),
    )


def _cuts(holes: Holes, which: Numbers, begin: Numbers, end: Numbers) -> tuple[Truths, Numbers]:
    """Return of gaps, `begin` to `end` within the hole `which`, whether the call that launched what
    ends it is recorded, and when it returned, which is where the gap is cut."""
    ended = holes.before[which] >= 0
    called, returned = (ended & (times[which] != NEVER) for times in (holes.called, holes.returned))
    return called, np.where(returned, np.clip(holes.returned[which], begin, end), end)


def _are_short(holes: Holes, which: Numbers, delay: int) -> Truths:
    """Tell after which holes an op that could start took no longer than `delay` to do so.

    Nothing is known of the time before the first op: there the return of the launch begins it.
    """
    if delay < 0:
        return np.zeros(len(which), bool)
    ready = np.maximum(holes.free_from, holes.returned)
    short: Truths = (holes.free_until - ready <= delay)[which]
    return short


def _holes(ops: Ops, least: int) -> Holes:
    order = by_start(ops.starts, ops.ids)
    if order is not None:
        ops = Ops(*(column[order] for column in ops))
    covered = np.maximum.accumulate(ops.ends)
    before = np.flatnonzero(ops.starts[1:] - covered[:-1] >= least) + 1
    # between two holes
    first, last = np.append(0, before), np.append(before, len(covered)) - 1
    ended_last = ops.ends == np.repeat(covered[last], last + 1 - first)
    watched = max(ops.ids[(ops.ends == covered[-1]) & (ops.called != NEVER)], default=-1)
    return Holes(
        np.append(NEVER, covered[last]),
        np.append(ops.starts[first], FOREVER),
        np.append(-1, np.maximum.reduceat(np.where(ended_last, ops.ids, -1), first)),
        np.append(ops.ids[first], -1),
        np.append(ops.ids[first], watched),
        np.append(ops.called[first], NEVER),
        np.append(ops.returned[first], NEVER),
    )


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
