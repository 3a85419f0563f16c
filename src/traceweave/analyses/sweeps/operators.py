"""Where operators lie in each other and in ranges, and what was launched in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import NEVER, Bits, Numbers, Truths, ascending


def operators(
    starts: Numbers,
    ends: Numbers,
    depths: Numbers,
    usable: Bits,
    range_starts: Numbers,
    range_ends: Numbers,
    range_sorts: Bits,
    called: Numbers,
    durations: Numbers,
    sorts: Numbers,
    steps: Numbers,
) -> tuple[npt.NDArray[np.generic], ...]:
    """Return where the operators of a thread lie, and what was launched in each.

    `range_sorts`: 1 backward, 3 compiled backward, 4 optimizer. Launches are at `called`; `sorts`
    are rank << 32, sort of kernel << 1 and whether it is compute. Columns, an element per operator:
    place (1: in no other, of the usable ones in no usable one; 2: usable; 4, 8, 16: in a backward,
    a compiled one, an optimizer; 32: usable, in a usable one), launches, time of compute and sort
    of its longest (-1: none). Then of compute launched in none: sort, step, duration. Then ranks.
    """
    order = _outer_first(starts, ends, depths)
    starts, ends, is_usable = starts[order], ends[order], usable[order] > 0
    is_first = _before(ends) <= starts
    is_first_usable = _before(np.where(is_usable, ends, NEVER)) <= starts
    place = np.where(is_usable, np.where(is_first_usable, 3, 32), is_first).astype(np.uint8)
    place |= _ranges_around(starts, range_starts, range_ends, range_sorts)
    outer = np.flatnonzero(place & 1)
    owner = np.searchsorted(starts[outer], called, side="right") - 1
    owner[(owner >= 0) & (called > np.append(ends[outer], 0)[owner])] = -1
    is_compute = sorts & 1 > 0
    launched = np.zeros((3, len(starts)), np.int64)
    launched[1:] = -1
    launched[:, outer] = _owned(owner, durations, sorts, is_compute, len(outer))
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    left = (owner < 0) & is_compute
    columns = (place[back], *launched[:, back], sorts[left], steps[left], durations[left])
    ranks = sorts >> 32
    return (*columns, np.unique(ranks if len(ranks) and np.ptp(ranks) else ranks[:1]))


def _ranges_around(at: Numbers, starts: Numbers, ends: Numbers, sorts: Bits) -> Bits:
    """Return in which sorts of ranges each moment lies, as bits of the place of operators."""
    found = np.zeros(len(at), np.uint8)
    for bits, wanted in ((4, 1), (16, 4)):
        of_sort = np.flatnonzero(sorts & wanted)
        inside = _inside(at, starts[of_sort], ends[of_sort])
        found[inside >= 0] |= bits
        found[np.append(sorts[of_sort] & 2, 0)[inside] > 0] |= 8
    return found


def _owned(
    owner: Numbers, durations: Numbers, sorts: Numbers, is_compute: Truths, owners: int
) -> Numbers:
    """Return three rows: launches, time of compute and sort of the longest, by owner; -1: none."""
    done = np.zeros((3, owners), np.int64)
    done[1:] = -1
    done[0] = np.bincount(owner[owner >= 0], minlength=owners)
    work = np.flatnonzero((owner >= 0) & is_compute)
    order = ascending(owner[work])
    if order is not None:
        work = work[order]
    if len(work):
        first = np.flatnonzero(np.diff(owner[work], prepend=-1))
        lengths = durations[work]
        done[1, owner[work[first]]] = np.add.reduceat(lengths, first)
        most = np.repeat(np.maximum.reduceat(lengths, first), np.diff(first, append=len(work)))
        longest = work[lengths == most][::-1]
        done[2, owner[longest]] = sorts[longest] >> 1 & 0x7FFFFFFF
    return done


def _outer_first(starts: Numbers, ends: Numbers, depths: Numbers) -> npt.NDArray[np.intp]:
    """Return what sorts ranges by their starts, of those with one start the longest first."""
    order = np.argsort(starts, kind="stable")
    if bool(np.all(np.diff(starts[order]) > 0)):
        return order
    return np.lexsort((depths, -ends, starts))


def _before(ends: Numbers) -> Numbers:
    """Return the largest end of all before each; NEVER if there are none."""
    return np.concatenate([[NEVER], np.maximum.accumulate(ends)[:-1]])[: len(ends)]


def _inside(at: Numbers, starts: Numbers, ends: Numbers) -> Numbers:
    """Return in which of the ranges that are in no other each moment lies; -1 if in none."""
    if not len(starts):
        return np.full(len(at), -1)
    order = _outer_first(starts, ends, starts)
    order = order[_before(ends[order]) <= starts[order]]
    last = np.searchsorted(starts[order], at, side="right") - 1
    place = order[last]
    return np.where((last >= 0) & (at < ends[place]), place, -1)
