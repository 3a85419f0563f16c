"""When nothing ran: the stretches between ops, cut at the edges of windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traceweave.analyses.sweeps.times import FOREVER, NEVER, Numbers, Truths, ascending


class Calls(NamedTuple):
    """Calls that launch ops."""

    ids: Numbers
    starts: Numbers
    ends: Numbers


class Holes(NamedTuple):
    """Stretches of nothing, from before the first op to after the last."""

    free_from: Numbers
    """NEVER before the first op."""
    free_until: Numbers
    """FOREVER after the last."""
    before: Numbers
    """The op that ends it, -1 for none."""
    launch: Numbers
    """The call to watch, -1 for none: that of the op, or after the last one, that of this."""


def gaps(
    starts: Numbers,
    ends: Numbers,
    ids: Numbers,
    launches: Numbers,
    window_starts: Numbers,
    window_ends: Numbers,
    call_ids: Numbers,
    call_starts: Numbers,
    call_ends: Numbers,
    limits: Numbers,
) -> tuple[Numbers, ...]:
    """Return the stretches in which no op ran, by windows, and sums over those of queued ops.

    Ops with equal starts are taken by their `ids`; `launches` are ids of calls, -1 for none.
    Windows follow each other. `limits`: shortest length that counts; longest stretch that is a
    queued op's own delay. Columns: number of the window, from 1; start and end, cut at its edges;
    the columns of Holes, NEVER for FOREVER. Then what ended with an op that one of the calls had
    launched in time, summed up and left out before: window, how many, their sum, the longest.
    """
    least = max(int(limits[0]), 1)
    holes = _holes(starts, ends, ids, launches, least)
    which, window = _meetings(holes.free_from, holes.free_until, window_starts, window_ends)
    begin = np.maximum(holes.free_from[which], window_starts[window])
    end = np.minimum(holes.free_until[which], window_ends[window])
    long = end - begin >= least
    which, window, begin, end = (column[long] for column in (which, window, begin, end))
    cut = Holes(*(column[which] for column in holes))
    queued = _were_queued(cut, begin, end, Calls(call_ids, call_starts, call_ends), int(limits[1]))
    kept = ~queued
    return (
        window[kept] + 1,
        begin[kept],
        end[kept],
        cut.free_from[kept],
        np.where(cut.free_until == FOREVER, NEVER, cut.free_until)[kept],
        cut.before[kept],
        cut.launch[kept],
        *_sums(window[queued] + 1, (end - begin)[queued]),
    )


def _holes(starts: Numbers, ends: Numbers, ids: Numbers, launches: Numbers, least: int) -> Holes:
    order = ascending(starts) if ascending(ids) is None else np.lexsort((ids, starts))
    if order is not None:
        starts, ends, ids, launches = starts[order], ends[order], ids[order], launches[order]
    covered = np.maximum.accumulate(ends)
    at = np.flatnonzero(starts[1:] - covered[:-1] >= least)
    last = (ends == covered[-1]) & (launches >= 0)
    caller = launches[last][np.argmax(ids[last])] if last.any() else -1
    return Holes(
        np.concatenate([[NEVER], covered[at], covered[-1:]]),
        np.concatenate([starts[:1], starts[at + 1], [FOREVER]]),
        np.concatenate([ids[:1], ids[at + 1], [-1]]),
        np.concatenate([launches[:1], launches[at + 1], [caller]]),
    )


def _were_queued(cut: Holes, begin: Numbers, end: Numbers, calls: Calls, delay: int) -> Truths:
    """Tell which gaps are no longer than `delay` and ended with an op launched in time.

    A launch whose call is not among `calls` is not judged here.
    """
    call = _places(cut.launch, calls.ids)
    since = np.where(cut.free_from == NEVER, begin, cut.free_from)
    queued = (cut.before >= 0) & (call >= 0) & (cut.free_until - since <= delay)
    place = np.flatnonzero(queued)
    start, stop = begin[place], end[place]
    called, returned = calls.starts[call[place]], calls.ends[call[place]]
    shared = np.minimum(returned, stop) - np.maximum(called, start)
    is_late = (called >= since[place]) | (2 * shared > stop - start)
    queued[place[is_late]] = False
    return queued


def _places(values: Numbers, among: Numbers) -> Numbers:
    """Return where in `among`, which has each number once, the values are; -1 if they are not."""
    if not len(among):
        return np.full(len(values), -1)
    order = ascending(among)
    at = np.searchsorted(among, values, sorter=order)
    at = np.minimum(at, len(among) - 1)
    if order is not None:
        at = order[at]
    return np.where(among[at] == values, at, -1)


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
    """Return pairs of an interval and a window, by number, among them all that meet."""
    first = np.searchsorted(window_starts, starts, side="right") - 1
    is_inside = (first >= 0) & (ends <= window_ends[first])
    last = np.searchsorted(window_starts, ends, side="left") - 1
    first = np.maximum(first, 0)
    count = np.where(is_inside, 1, np.maximum(last - first + 1, 0))
    which = np.repeat(np.arange(len(starts)), count)
    place = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return which, first[which] + place
