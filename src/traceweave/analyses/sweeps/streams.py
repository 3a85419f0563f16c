"""One stream at a time: why it idled, and how many launches waited for it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import NEVER, Numbers, Truths, ascending, by_start


def stream_idle(
    starts: Numbers, ends: Numbers, called: Numbers, limits: Numbers
) -> tuple[Numbers, ...]:
    """Return the sums of the stretches in which a stream was idle, by what it waited for.

    `called`: start of the call that launched each op, NEVER for none; `limits`: a shorter stretch
    before work that was queued is the time it takes to start. One element each: time idle, time of
    it before an op launched after the one before had ended, time of short ones before another op;
    and how many there were of each.
    """
    order = by_start(starts, ends)
    if order is not None:
        starts, ends, called = starts[order], ends[order], called[order]
    covered = np.maximum.accumulate(ends)
    idle = starts[1:] - covered[:-1]
    at = np.flatnonzero(idle > 0)
    idle = idle[at]
    is_late = called[at + 1] > covered[at]
    late, short = idle[is_late], idle[~is_late & (idle < limits[0])]
    kinds = (idle, late, short)
    return tuple(np.array([value], np.int64) for value in (*map(np.sum, kinds), *map(len, kinds)))


def queue_depth(
    starts: Numbers, launches: Numbers, called: Numbers, durations: Numbers, limits: Numbers
) -> tuple[Numbers, ...]:
    """Return how many launches waited for a stream, by stretches of time.

    Of each op its start, the number of its launch, and start (NEVER: not recorded) and length of
    the call. `limits`: how many launches fill a queue; length of a stretch, 0 for one in all. A
    launch waits from its call to the first start of its ops. Columns, an element per stretch in
    which something changes: start; length; launches; most that waited; waiting launches times time;
    median of those waiting when one was launched, itself included, -1 for none; time with none;
    launches that found none; time with a full queue; launches that found it full; time in these.
    """
    is_launched = called != NEVER
    if not bool(np.all(is_launched)):
        starts, launches = starts[is_launched], launches[is_launched]
        called, durations = called[is_launched], durations[is_launched]
    if not len(called):
        return (called,) * 11
    came, left, durations = _waits(starts, launches, called, durations)
    first, last, full = int(came[0]), int(left.max()), int(limits[0])
    length = int(limits[1])
    marks = np.arange(first, last if length > 0 else first, max(length, 1)).astype(np.int64)
    at, is_launch, depth = _depths(came, marks, left)
    lasted = np.diff(at, append=at[-1])
    begins = np.zeros(1, np.intp)
    if len(marks):
        stretch = (np.minimum(at, max(last - 1, first)) - first) // length
        begins = np.flatnonzero(np.diff(stretch, prepend=-1))
    found = depth[is_launch]
    edges = np.append(np.cumsum(is_launch) - is_launch, len(came))[np.append(begins, len(at))]
    return (
        first + (at[begins] - first) // max(length, 1) * length,
        np.add.reduceat(lasted, begins),
        np.diff(edges),
        np.maximum.reduceat(depth, begins),
        np.add.reduceat(depth * lasted, begins),
        _medians(found, edges),
        np.add.reduceat(np.where(depth == 0, lasted, 0), begins),
        _sums(found == 1, edges),
        np.add.reduceat(np.where(depth >= full, lasted, 0), begins),
        _sums(found > full, edges),
        _sums(np.where(found > full, durations, 0), edges),
    )


def _depths(came: Numbers, marks: Numbers, left: Numbers) -> tuple[Numbers, Truths, Numbers]:
    """Return all moments in order, which are those of a launch, and how many wait from each on."""
    # at one moment launches come first, so that none leaves before it came
    at = np.concatenate([came, marks, left if ascending(left) is None else np.sort(left)])
    order = np.argsort(at, kind="stable")
    is_launch = order < len(came)
    change = is_launch.astype(np.int64) - (order >= len(came) + len(marks))
    return at[order], is_launch, np.cumsum(change, out=change)


def _waits(
    starts: Numbers, launches: Numbers, called: Numbers, durations: Numbers
) -> tuple[Numbers, Numbers, Numbers]:
    """Return of each launch when it came, when its first op started, and the length of its call."""
    order = ascending(called)
    if order is not None:
        columns = (starts, launches, called, durations)
        starts, launches, called, durations = (column[order] for column in columns)
    if bool(np.any(called[1:] == called[:-1])):
        by_launch = np.lexsort((starts, launches, called))
        alike = launches[by_launch]
        once = by_launch[np.concatenate([[True], alike[1:] != alike[:-1]])]
        starts, called, durations = starts[once], called[once], durations[once]
    return called, np.maximum(starts, called), durations


def _sums(values: Numbers | Truths, edges: npt.NDArray[np.intp]) -> Numbers:
    """Return the sum of the values between each two edges."""
    return np.diff(np.concatenate([[0], np.cumsum(values)])[edges])


def _medians(values: Numbers, edges: npt.NDArray[np.intp]) -> Numbers:
    """Return the nearest-rank median of the values between each two edges; -1 for none."""
    if len(edges) == 2:
        half = (len(values) - 1) // 2
        return np.partition(values, half)[half : half + 1]
    counts = np.diff(edges)
    order = np.lexsort((values, np.repeat(np.arange(len(counts)), counts)))
    half = edges[:-1] + (counts - 1) // 2
    return np.where(counts > 0, np.append(values[order], -1)[half], -1)
