"""Where operators lie in each other and in ranges, and what was launched in them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import NEVER, Bits, Numbers, Truths, ascending, by_start


class Operators(NamedTuple):
    """Operators of a thread."""

    starts: Numbers
    ends: Numbers
    depths: Numbers
    names: Numbers
    """Equal for those of one name."""
    usable: Bits
    """1: their FLOPs are known."""


class Ranges(NamedTuple):
    """Ranges of a thread that say what operators in them are for."""

    starts: Numbers
    ends: Numbers
    sorts: Bits
    """1: backward, 3: compiled backward, 4: optimizer."""


class Launches(NamedTuple):
    """What a thread launched."""

    called: Numbers
    durations: Numbers
    """Of the kernels, as their sorts."""
    sorts: Numbers
    """Odd for compute; what else a number says comes back with the longest kernel."""


class Placed(NamedTuple):
    """Where operators lie and what was launched in each, in the order they came."""

    computed_as: Numbers
    """Which of the operators has the arguments that it computed with: itself, but autocast converts
    the arguments and calls an operator again; then the innermost of its name."""
    place: Bits
    """1: in no other, of the usable ones in no usable one; 2: usable; 4, 8, 16: in a backward, a
    compiled one, an optimizer; 32: usable, in a usable one."""
    launched: Numbers
    """Three rows: launches, time of compute and sort of the longest of it, -1 if there is none."""
    is_owned: Truths
    """Whether each launch was in an operator."""


def operators(ops: Operators, ranges: Ranges, launches: Launches) -> Placed:
    """Return where the operators of a thread lie, and what was launched in each.

    A launch belongs to the operator that is in no other and in whose time it was called.
    """
    order = _outer_first(ops.starts, ops.ends, ops.depths)
    starts, ends, is_usable = ops.starts[order], ops.ends[order], ops.usable[order] > 0
    is_first = _before(ends) <= starts
    is_first_usable = _before(np.where(is_usable, ends, NEVER)) <= starts
    place = np.where(is_usable, np.where(is_first_usable, 3, 32), is_first).astype(np.uint8)
    place |= _ranges_around(starts, *ranges)
    outer = np.flatnonzero(place & 1)
    owner = np.searchsorted(starts[outer], launches.called, side="right") - 1
    owner[(owner >= 0) & (launches.called > np.append(ends[outer], 0)[owner])] = -1
    launched = np.zeros((3, len(starts)), np.int64)
    launched[1:] = -1
    launched[:, outer] = _owned(owner, launches, len(outer))
    same = _innermost(starts, ops.depths[order], ops.names[order], place)
    back = np.empty(len(order), np.intp)
    back[order] = np.arange(len(order))
    return Placed(order[same][back], place[back], launched[:, back], owner >= 0)


def _innermost(starts: Numbers, depths: Numbers, names: Numbers, place: Bits) -> Numbers:
    """Return for every operator the deepest usable one of its name in it; if there is none, it."""
    same = np.arange(len(starts))
    inner, outer = np.flatnonzero(place & 32), np.flatnonzero(place & 3 == 3)
    around = outer[np.searchsorted(starts[outer], starts[inner], side="right") - 1]
    is_alike = names[around] == names[inner]
    inner, around = inner[is_alike], around[is_alike]
    # the last one stays: of the deepest the first
    order = np.argsort(-depths[inner], kind="stable")[::-1]
    same[around[order]] = inner[order]
    return same


def _ranges_around(at: Numbers, starts: Numbers, ends: Numbers, sorts: Bits) -> Bits:
    """Return in which sorts of ranges each moment lies, as bits of the place of operators."""
    found = np.zeros(len(at), np.uint8)
    for bits, wanted in ((4, 1), (16, 4)):
        of_sort = np.flatnonzero(sorts & wanted)
        inside = _inside(at, starts[of_sort], ends[of_sort])
        found[inside >= 0] |= bits
        found[np.append(sorts[of_sort] & 2, 0)[inside] > 0] |= 8
    return found


def _owned(owner: Numbers, launches: Launches, owners: int) -> Numbers:
    """Return what Placed has as launched, by owner."""
    done = np.zeros((3, owners), np.int64)
    done[1:] = -1
    done[0] = np.bincount(owner[owner >= 0], minlength=owners)
    work = np.flatnonzero((owner >= 0) & (launches.sorts & 1 > 0))
    order = ascending(owner[work])
    if order is not None:
        work = work[order]
    if len(work):
        first = np.flatnonzero(np.diff(owner[work], prepend=-1))
        lengths = launches.durations[work]
        done[1, owner[work[first]]] = np.add.reduceat(lengths, first)
        most = np.repeat(np.maximum.reduceat(lengths, first), np.diff(first, append=len(work)))
        longest = work[lengths == most][::-1]
        done[2, owner[longest]] = launches.sorts[longest]
    return done


def _outer_first(starts: Numbers, ends: Numbers, depths: Numbers) -> npt.NDArray[np.intp]:
    """Return what sorts ranges by their starts, of those with one start the longest first."""
    order = by_start(starts, -ends, depths)
    return np.arange(len(starts)) if order is None else order


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
