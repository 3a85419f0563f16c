"""Which shift between two ranks' sequences of calls is the right one, if that can be told at all.

The symbols of a call (operation, size, type) say which shifts are possible; training repeats
itself, so there are usually several. The clocks decide between them: under the right shift the ends
of partners differ by an almost constant offset, under a wrong one by whatever the program did in
between. Step numbers, where both ranks have them, decide first. What neither can decide stays
undecided.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.calls import PROVES, Calls, agree
from traceweave.matching.coarse_clocks import DRIFT_LIMIT
from traceweave.matching.outcome import ACAUSAL, SEVERAL_WAYS
from traceweave.medians import median_of, row_medians

SAMPLE = 256
"""Pairs of calls that a candidate shift is judged by."""
SHORTLIST = 24
"""Shifts that are judged closely."""
AT_A_TIME = 16_384
"""Shifts looked at together, lest two ranks with a million calls each take gigabytes."""
MIN_OVERLAP = 0.25
"""Share of the shorter sequence that a shift must leave overlapping."""
CLEAR = 2.0
"""How many times more the ends must scatter under every other shift."""
CHANCE = 1e-3
"""Largest probability that a shift is the work of chance."""
SAME_CLOCK_NS = 1_000_000
"""Clocks of one host differ by less than this, even between processes and profilers."""
STEP_NS = 1_000_000
"""By how much a clock may step once,"""
PARTS = 8
"""in one of so many parts of the calls;"""
STEPS = 2
"""as often as this over fewer calls of two ranks: each clock once."""
BETWEEN_STEPS = 8
"""Calls there are for each part between steps, on average: a wrong shift needs a step more often.
"""
WALL_CLOCK_NS = 5_000_000_000
"""Wall clocks of one cluster differ by less than this: of shifts that are possible these are looked
at first. Times need not be of a wall clock; if none of these is possible, all others are."""
ANY_NS = float("inf")
"""The same for times that count from anywhere."""
SLACK_NS = 100_000
"""By how much calls may contradict causality without that telling anything."""
ALIKE = 0.5
"""Share of the calls that have to be alike in what may be one group."""
SURELY_ALIKE = 0.9
"""Share of the calls, and of those in steps, that have to be alike in what is surely one group."""


@dataclass(frozen=True)
class _Judged:
    """What speaks for each candidate shift."""

    shift: Ints
    agreement: Floats
    offset: Floats
    dispersion: Floats
    """Median change of the end difference from one pair to the next, ns; inf with fewer than two
    pairs.
    """
    steps: Floats
    """Share of pairs with the same step number among those that have one; -1 if none has."""
    excess: Floats
    """By how much the pairs contradict causality for every offset, ns, but for a step of a clock;
    negative if they do not.
    """
    excess_at_zero: Floats
    """The same for offset 0."""
    pairs: Floats
    """How many pairs the judgement rests on."""

    def where(self, kept: Flags) -> _Judged:
        return _Judged(**{name: getattr(self, name)[kept] for name in self.__dataclass_fields__})


def choose_shift(a: Calls, b: Calls, same_clock: bool) -> tuple[int | None, str]:
    """The one shift that symbols, steps and clocks agree on, or None and why not."""
    if not len(a) or not len(b):
        return None, "no calls to compare with"
    candidates, most = _candidates(a, b), _most(a, b)
    shift, reason = None, ACAUSAL
    for limit in limits_ns(same_clock):
        judged = _judge(a, b, _shortlist(a, b, candidates, limit), most)
        if not len(judged.shift):
            return None, "the ranks' sequences of operations do not fit each other"
        shift, reason = _choose(a, b, judged, most, limit)
        if reason != ACAUSAL:
            break
    return shift, reason


def limits_ns(same_clock: bool) -> tuple[float, ...]:
    """Return how far clocks may lie apart: what is likely first, then what is possible."""
    return (SAME_CLOCK_NS,) if same_clock else (WALL_CLOCK_NS, ANY_NS)


def _choose(
    a: Calls, b: Calls, judged: _Judged, most: float, limit: float
) -> tuple[int | None, str]:
    """The right one of the shifts that clocks no further apart than `limit` leave."""
    same_clock = limit == SAME_CLOCK_NS
    only = _only(judged, most)
    near = _near(judged, limit)
    if same_clock and not near.any() and (judged.excess_at_zero <= SAME_CLOCK_NS).any():
        return None, SEVERAL_WAYS
    judged = judged.where(near)
    judged = judged.where(_in_step(judged))
    causal = judged.excess <= most
    if not causal.any():
        return None, ACAUSAL
    whole = [shift for shift in judged.shift[causal].tolist() if same_steps(a, b, shift)]
    if len(whole) == 1 and (same_clock or whole[0] == 0):
        # of a hundred sums of one size per step, any other shift of a few has most in their steps,
        # and ends of gloo that lie as near; but some of every step in another one
        return whole[0], ""
    return _best(a, b, judged, causal, only, same_clock)


def could_be_one(a: Calls, b: Calls, same_clock: bool) -> bool:
    """Whether two ranks' calls could be all that they did in one group: under some shift operations
    and steps are alike and causality holds.
    """
    shifts = _candidates(a, b)
    if same_clock:
        shifts = shifts[_meeting(a, b, shifts)]
    most = _most(a, b)
    return any(_could_fit(a, b, shifts, most, limit) for limit in limits_ns(same_clock))


def _could_fit(a: Calls, b: Calls, shifts: Ints, most: float, limit: float) -> bool:
    judged = _judge(a, b, _shortlist(a, b, shifts, limit), most)
    alike = (judged.agreement >= SURELY_ALIKE) & (
        (judged.steps < 0) | (judged.steps >= SURELY_ALIKE)
    )
    if not PROVES[a.op].any():
        return bool(alike.any())
    one_clock = limit == SAME_CLOCK_NS
    causal = judged.excess_at_zero <= SLACK_NS if one_clock else judged.excess <= most
    return bool((alike & causal).any())


def _most(a: Calls, b: Calls) -> float:
    """By how much calls of two ranks may contradict causality under the right shift, ns."""
    span = float(max(a.end.max() - a.start.min(), b.end.max() - b.start.min()))
    return SLACK_NS + DRIFT_LIMIT * span


def _meeting(a: Calls, b: Calls, shifts: Ints) -> Flags:
    """Under which shifts of sequences on one clock half of the calls that wait for all ranks may
    meet: a quick look, at the first that had not ended and the last that had begun.
    """
    inside = PROVES[a.op] & (a.end >= b.start.min()) & (a.start <= b.end.max())
    i = np.flatnonzero(inside)
    if not len(i):
        return np.ones(len(shifts), dtype=np.bool_)
    ends, starts = np.maximum.accumulate(b.end), np.sort(b.start)
    first = np.searchsorted(ends, a.start[i] - SLACK_NS) - i
    last = np.searchsorted(starts, a.end[i] + SLACK_NS, side="right") - 1 - i
    return np.asarray((shifts >= np.median(first)) & (shifts <= np.median(last)))


def _in_step(judged: _Judged) -> Flags:
    """The shifts under which most calls have the same steps; all of them if there is none."""
    if not len(judged.shift) or judged.steps.max() < SURELY_ALIKE:
        return np.full(len(judged.shift), True)
    return np.asarray(judged.steps >= judged.steps.max() - 0.05)


def _only(judged: _Judged, most: float) -> int | None:
    """The shift that steps and causality leave for clocks that are one, if it is the only one:
    partners are among those of a shift that they leave, however far their ends lie apart.
    """
    possible = (judged.excess_at_zero <= SAME_CLOCK_NS) & (judged.excess <= most)
    left = judged.shift[possible & _in_step(judged)]
    return int(left[0]) if len(left) == 1 else None


def _near(judged: _Judged, limit: float) -> Flags:
    """Which shifts the clocks may lie apart by.

    On one clock ends may lie apart as well, since threads end when they get a core, one rank's
    later than another's: where no shift brings them near, those are left under which causality
    holds and calls have the same steps, or, without steps, the one under which causality holds, if
    it holds under no other.
    """
    if limit != SAME_CLOCK_NS:
        return np.asarray(np.abs(judged.offset) <= limit)
    possible = judged.excess_at_zero <= SAME_CLOCK_NS
    near = possible & (np.abs(judged.offset) <= SAME_CLOCK_NS)
    if near.any():
        return np.asarray(near)
    alone = (judged.steps < 0) & (possible.sum() == 1)
    return np.asarray(possible & ((judged.steps >= SURELY_ALIKE) | alone))


def steadiest_shift(a: Calls, b: Calls, same_clock: bool) -> int | None:
    """The shift of a short sequence under which ends scatter least from one pair to the next,
    whatever causality and chance say of it; None if under no shift operations are alike.
    """
    candidates = _candidates(a, b)
    found = (_steadiest(a, b, candidates, limit) for limit in limits_ns(same_clock))
    return next((shift for shift in found if shift is not None), None)


def _steadiest(a: Calls, b: Calls, candidates: Ints, limit: float) -> int | None:
    shifts = _shortlist(a, b, candidates, limit)
    inside, ahead = under(shifts, a, np.arange(len(a)), b)
    scatter = np.nan_to_num(row_medians(np.abs(np.diff(ahead, axis=1))).ravel(), nan=np.inf)
    near = np.abs(row_medians(ahead).ravel()) <= limit
    possible = near & (2 * np.isfinite(ahead).sum(axis=1) >= inside.sum(axis=1))
    return int(shifts[possible][scatter[possible].argmin()]) if possible.any() else None


def under(shifts: Ints, a: Calls, i: Ints, b: Calls) -> tuple[Flags, Floats]:
    """What each shift (a row) makes of the calls i of a: which have one of b there, and how far
    that ends ahead if it may be the same, else NaN."""
    j = i + shifts[:, None]
    inside = (j >= 0) & (j < len(b))
    j = np.clip(j, 0, len(b) - 1)
    return inside, np.where(inside & agree(a, i, b, j), b.end[j] - a.end[i], np.nan)


def _best(
    a: Calls, b: Calls, judged: _Judged, causal: Flags, only: int | None, same_clock: bool
) -> tuple[int | None, str]:
    """The candidate whose ends scatter clearly least, if causality allows it and chance does not;
    the `only` one that is possible need not, on one clock.

    Where one scatters least that causality forbids, or hardly more over more calls, calls are
    missing in between: then no other is right.
    """
    # a shift that leaves few calls to compare has little to contradict it
    overlap = np.minimum(len(a), len(b) - judged.shift) - np.maximum(0, -judged.shift)
    agreeing = judged.agreement * overlap
    misfit = judged.dispersion * (agreeing.max() / agreeing)
    least = np.flatnonzero(causal)[misfit[causal].argmin()]
    within = np.where(overlap > overlap[least], CLEAR, 1.0) * misfit[least]
    if (~causal & (misfit < within)).any():
        return None, ACAUSAL
    judged, misfit = judged.where(causal), misfit[causal]
    order = np.argsort(misfit, kind="stable")
    best = int(order[0])
    shift = int(judged.shift[best])
    if _chance(b, judged, best) > CHANCE:
        return _plain_order(a, b, judged, only)
    margin = (CLEAR + 100 / judged.pairs[best]) * misfit[best] + 2_000
    if len(order) == 1 or misfit[order[1]] > margin:
        return shift, ""
    near = np.sort(np.abs(judged.offset))
    if same_clock and near[0] < 0.25 * near[1]:
        return int(judged.shift[np.abs(judged.offset).argmin()]), ""
    return _plain_order(a, b, judged, only)


def _others(a: Calls, b: Calls, chosen: int) -> bool:
    """Whether steps and causality leave another shift for clocks that are one, of all that there
    are: the right one may not be on the shortlist, where ends are far apart."""
    shifts = _candidates(a, b)
    for first in range(0, len(shifts), AT_A_TIME):
        here = shifts[first : first + AT_A_TIME]
        i = _looked_at(a, b, here)
        seems = ~_forbidden(a, i, b, i + here[:, None]).any(axis=1) & (here != chosen)
        for shift in here[seems].tolist():
            i = np.arange(max(0, -shift), min(len(a), len(b) - shift))
            alike = agree(a, i, b, i + shift).mean() >= ALIKE
            if alike and not _forbidden(a, i, b, i + shift).any():
                return True
    return False


def _forbidden(a: Calls, i: Ints, b: Calls, j: Ints) -> Flags:
    """Whether calls cannot be one if clocks are: of other steps, or one after the other."""
    late = np.maximum(a.start[i] - b.end[j], b.start[j] - a.end[i]) > SAME_CLOCK_NS
    apart = (a.step[i] != b.step[j]) & (a.step[i] >= 0) & (b.step[j] >= 0)
    return np.asarray(agree(a, i, b, j) & (apart | (late & PROVES[a.op[i]])))


def same_steps(a: Calls, b: Calls, shift: int) -> bool:
    """Whether both ranks show the same operations in the same steps, call by call, over several
    steps, of which neither has more calls: in a step that one rank recorded in part, or of which it
    lost calls, order tells nothing.
    """
    i = np.arange(max(0, -shift), min(len(a), len(b) - shift))
    j = i + shift
    steps = np.unique(a.step[i])
    if len(steps) < 2 or np.isin(a.step, steps).sum() + np.isin(b.step, steps).sum() > 2 * len(i):
        return False
    same = (a.step[i] == b.step[j]) & (a.step[i] >= 0) & agree(a, i, b, j)
    return bool(same.all())


def _chance(b: Calls, judged: _Judged, best: int) -> float:
    """How likely unrelated calls would scatter this little under one of the candidate shifts.

    A call of b ends by chance within the dispersion of a given moment with probability p; half of n
    doing so is no more likely than (4p)^(n/2).
    """
    pairs, dispersion = judged.pairs[best], judged.dispersion[best]
    if pairs < 2 or not np.isfinite(dispersion):
        return 1.0
    gap = max(1.0, float(np.median(np.diff(b.end))))
    base = min(1.0, 8 * float(dispersion) / gap)
    return float(len(judged.shift) * base ** ((pairs - 1) / 2))


def _plain_order(a: Calls, b: Calls, judged: _Judged, only: int | None) -> tuple[int | None, str]:
    """The n-th call with the n-th: only for windows of one length that the wall clocks pin to each
    other.
    """
    if only == 0 and 0 in judged.shift and len(a) == len(b):
        known = (a.step >= 0) & (b.step >= 0)
        if (a.step == b.step)[known].all() and not _others(a, b, 0):
            return 0, ""
    return None, SEVERAL_WAYS


def _candidates(a: Calls, b: Calls) -> Ints:
    """Shifts under which at least half of the overlapping operations are of the same kind."""
    shifts = np.arange(1 - len(a), len(b))
    overlap = np.minimum(len(a), len(b) - shifts) - np.maximum(0, -shifts)
    same = np.zeros(len(shifts))
    for op in np.intersect1d(a.op, b.op):
        same += _convolve((b.op == op).astype(float), (a.op == op).astype(float)[::-1])
    enough = overlap >= max(1.0, MIN_OVERLAP * min(len(a), len(b)))
    return np.asarray(shifts[enough & (same >= ALIKE * overlap - 0.01)])


def _convolve(x: Floats, y: Floats) -> Floats:
    """The sum of products under every shift; as scipy.signal does it, which takes half a second to
    import.
    """
    size = len(x) + len(y) - 1
    padded = 1 << (size - 1).bit_length()
    return np.fft.irfft(np.fft.rfft(x, padded) * np.fft.rfft(y, padded), padded)[:size]


def _shortlist(a: Calls, b: Calls, shifts: Ints, limit: float) -> Ints:
    """The most promising candidates by a quick look at few pairs, where there are many."""
    if len(shifts) <= SHORTLIST:
        return shifts
    looks = [
        _look(a, b, shifts[first : first + AT_A_TIME], limit)
        for first in range(0, len(shifts), AT_A_TIME)
    ]
    order = np.lexsort([np.concatenate(column) for column in zip(*looks, strict=True)])
    return np.asarray(np.sort(shifts[order[:SHORTLIST]]))


def _look(a: Calls, b: Calls, shifts: Ints, limit: float) -> tuple[Floats, Floats, Floats, Flags]:
    """What makes shifts less promising, as one value per shift, the most important last."""
    i = _looked_at(a, b, shifts)
    j = i + shifts[:, None]
    here = b.end[j] - a.end[i]
    later = np.minimum(i + 1, len(a) - 1)
    there = b.end[np.minimum(j + 1, len(b) - 1)] - a.end[later]
    near = np.abs(np.median(here, axis=1)) <= limit
    scatter = np.median(np.abs(there - here), axis=1)
    steps = -((a.step[i] == b.step[j]) & (a.step[i] >= 0)).mean(axis=1)
    misfit = 1.0 - agree(a, i, b, j).mean(axis=1)
    return scatter, np.round(steps, 1), np.round(misfit, 1), ~near


def _looked_at(a: Calls, b: Calls, shifts: Ints) -> Ints:
    """Calls of a that have partners under each shift, some of them from the first to the last."""
    first = np.maximum(0, -shifts)
    last = np.minimum(len(a), len(b) - shifts) - 2
    i = first[:, None] + ((last - first)[:, None] * np.linspace(0.0, 1.0, 24)).astype(np.int64)
    return np.asarray(np.maximum(i, 0))


def _judge(a: Calls, b: Calls, shifts: Ints, most: float) -> _Judged:
    """Weigh every candidate, keeping those whose symbols agree best."""
    rows = [_weigh(a, b, int(shift), most) for shift in shifts]
    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    judged = _Judged(shifts, *table.T)
    return judged.where(judged.agreement >= ALIKE)


@cache
def _sampled(count: int) -> Ints:
    """Return some of so many calls, each with the one after it, from the first to the last."""
    starts = np.linspace(0, count - 1, min(SAMPLE, count)).astype(np.int64)
    return np.unique(np.minimum(np.concatenate([starts, starts + 1]), count - 1))


def _weigh(a: Calls, b: Calls, shift: int, most: float) -> tuple[float, ...]:
    first, last = max(0, -shift), min(len(a), len(b) - shift)
    i = first + _sampled(last - first)
    j = i + shift
    fits = agree(a, i, b, j)
    agreement = float(fits.mean())
    if agreement < ALIKE:
        return (agreement, 0.0, np.inf, -1.0, np.inf, np.inf, 0.0)
    known = fits & (a.step[i] >= 0) & (b.step[j] >= 0)
    steps = float((a.step[i] == b.step[j])[known].mean()) if known.any() else -1.0
    i, j = i[fits], j[fits]
    differences = (b.end[j] - a.end[i]).astype(np.float64)
    changes = np.abs(np.diff(differences))[np.diff(i) == 1]
    dispersion = median_of(changes) if len(changes) else np.inf
    median, pairs = median_of(differences), float(len(i))
    (a_waits, a_awaited), (b_waits, b_awaited) = a.roles(i), b.roles(j)
    after, before = a_waits & b_awaited, b_waits & a_awaited
    proving = after | before
    if proving.any():  # a broadcast may end at its root before others begin it
        i, j, after, before = i[proving], j[proving], after[proving], before[proving]
    else:  # nor does anybody wait for one that is not the root
        after = before = (a.root[i] < 0) | (b.root[j] < 0)
    low = np.where(after, (b.start[j] - a.end[i]).astype(float), -np.inf)
    high = np.where(before, (b.end[j] - a.start[i]).astype(float), np.inf)
    lowest = np.sort(low)[-1 - int(0.02 * np.sum(after))]
    highest = np.sort(high)[int(0.02 * np.sum(before))]
    excess = float(lowest - highest)
    if len(low) >= PARTS * PARTS:
        excess = _but_for_a_step(excess, low, high)
    elif agreement >= SURELY_ALIKE and _only_stepped(excess, low, high, most):
        excess = 0.0
    return (
        agreement,
        median,
        dispersion,
        steps,
        excess,
        float(max(lowest, -highest)),
        pairs,
    )


def _but_for_a_step(excess: float, low: Floats, high: Floats) -> float:
    """The excess of the part of the calls that has most after the one in which a clock may have
    stepped.
    """
    if not 0 < excess <= STEP_NS:
        return excess
    edges = np.linspace(0, len(low), PARTS, endpoint=False).astype(np.int64)
    parts = np.maximum.reduceat(low, edges) - np.minimum.reduceat(high, edges)
    return float(np.sort(parts)[-2])


def _only_stepped(excess: float, low: Floats, high: Floats, most: float) -> bool:
    """Whether the excess is no more than `most` between few steps."""
    if not most < excess <= STEPS * STEP_NS:
        return False
    parts, lowest, highest = 1, -np.inf, np.inf
    for at_least, at_most in zip(low.tolist(), high.tolist(), strict=True):
        lowest, highest = max(lowest, at_least), min(highest, at_most)
        if lowest - highest > most:
            parts, lowest, highest = parts + 1, at_least, at_most
    return parts <= STEPS + 1 and len(low) >= BETWEEN_STEPS * parts
