"""Two ranks' calls of one group without sequence numbers: which is which.

The best shift between the two sequences (shifts.py) gives partners by order, the clocks confirm or
refuse each of them, what lies off the line is judged as if it were all there is, and what is left
finds its partner by time. A vote over all pairs (voting.py) takes the place of the shift where
events are missing in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.calls import PROVES, Calls, agree
from traceweave.matching.coarse_clocks import ALONE, EXACT, Line, fit_line, match_by_time, tolerance
from traceweave.matching.evidence import FLOOR_NS, LEAST, PROVEN, surprise
from traceweave.matching.shifts import (
    AT_A_TIME,
    SAMPLE,
    STEP_NS,
    STEPS,
    choose_shift,
    same_steps,
    steadiest_shift,
    under,
)
from traceweave.matching.voting import vote
from traceweave.medians import row_medians

STRETCH = 12
"""Calls that a stretch needs to be judged by itself."""
SHORT = 6
"""The same where its shift is that of all others, and it is off by no more than a step."""
FEW = 3
"""Calls with a shift of their own that are taken for chance."""
SOME_TO_FIT = 3
"""Calls that a line is fitted to."""
RIVALS = 24
"""Calls by which another shift may differ that explains a stretch better."""
LACK = 4.0
"""Minus the logarithm of how often a rank's recording lacks a call, one in fifty at most: what a
call without partner costs, and one that is off at most."""
LOOSE = 16
"""Calls of a stretch that is looked at by itself where a whole sequence is not decided,"""
LOOK = 8
"""and so many stretches."""
NOISE = 3.0
"""How many times the scatter of ends a partner may lie off by chance."""
TOO_FEW = "most calls found no partner under the best shift"


@dataclass(frozen=True)
class Alignment:
    """Partner of each call of a among the calls of b, -1 if it has none."""

    partner: Ints
    line: Line | None
    """None: undecided, and `partner` is -1 throughout."""
    plain: bool
    """The n-th call of a is the n-th of b, for all of them."""
    reason: str = ""


def align_pair(a: Calls, b: Calls, *, same_clock: bool = False) -> Alignment:
    """Align the calls of a with those of b, both one rank's in order; `same_clock`: offset known to
    be 0.
    """
    shift, reason = choose_shift(a, b, same_clock)
    if shift is None:
        return _align_by_votes(a, b, same_clock, reason)
    shared = np.arange(max(0, -shift), min(len(a), len(b) - shift))
    i = shared[agree(a, shared, b, shared + shift)]
    differences = (b.end[i + shift] - a.end[i]).astype(np.float64)
    line = fit_line(a.end[i].astype(np.float64), differences)
    kept = np.zeros(len(a), dtype=np.bool_)
    kept[i] = np.abs(b.end[i + shift] - line.apply(a.end[i])) <= tolerance(line)
    region = slice(max(0, -shift), min(len(a), len(b) - shift))
    between = np.zeros(len(a), dtype=np.bool_)
    between[region] = _sandwiched(kept[region])
    kept[i] |= between[i] & _possible(a, i, b, i + shift, line)
    if same_steps(a, b, shift) or (a.waited[i] & b.waited[i + shift]).all():
        # the order is beyond doubt, however far the ends scatter; or ends say nothing against it
        kept[i] |= causal(a, i, b, i + shift, line)
    partner = np.where(kept, np.arange(len(a)) + shift, -1)
    if (~_mostly(kept)).any():
        _drop_lonely(partner)
        _align_between(a, b, line, partner, same_clock)
        found = partner >= 0
        left = np.intersect1d(i, np.flatnonzero(_few_between(found, found & ~kept)))
        left = left[causal(a, left, b, left + shift, line, STEP_NS)]
        left = left[~np.isin(left + shift, partner)]
        partner[left] = left + shift
    _drop_passed_over(a, b, line, partner)
    match_by_time(a, b, line, partner)
    _drop_strays(partner)
    _drop_outdone(a, b, partner, shift)
    if not _supported(a, b, line, partner):
        return _align_by_votes(a, b, same_clock, TOO_FEW)
    plain = shift == 0 and len(a) == len(b) and bool((partner == np.arange(len(a))).all())
    return Alignment(partner, line, plain)


def align_stretches(a: Calls, b: Calls, *, same_clock: bool = False) -> Alignment:
    """Align some stretches of calls, each where its ends run most evenly with those of b: how they
    might belong together if clocks step and calls are missing in between.
    """
    partner = np.full(len(a), -1, dtype=np.int64)
    length = min(LOOSE, len(a))
    for first in np.unique(np.linspace(0, len(a) - length, LOOK).astype(np.int64)):
        stretch = a.take(np.arange(first, first + length))
        shift = steadiest_shift(stretch, b, same_clock)
        if shift is not None:
            i = np.arange(max(0, -shift), min(length, len(b) - shift))
            i = i[agree(stretch, i, b, i + shift)]
            partner[first + i] = i + shift
    _drop_strays(partner)
    return Alignment(partner, None, False)


def align_some(a: Calls, b: Calls, *, same_clock: bool = False) -> Alignment:
    """Align by time alone what fits, however few of the calls that is."""
    if same_clock:
        partner = np.full(len(a), -1, dtype=np.int64)
        match_by_time(a, b, EXACT, partner)
        return Alignment(partner, EXACT, False)
    return _align_by_votes(a, b, same_clock, TOO_FEW, some=True)


def _align_by_votes(
    a: Calls, b: Calls, same_clock: bool, reason: str, *, some: bool = False
) -> Alignment:
    """Align by time where no single shift explains the sequences, as when events are lost in
    between; `some`: only part of the calls need to fit.
    """
    refused = Alignment(np.full(len(a), -1, dtype=np.int64), None, False, reason)
    seed = vote(a, b, same_clock=same_clock, some=some)
    if seed is None:
        return refused
    partner, line = near_line(a, b, seed)
    if (partner >= 0).sum() < SOME_TO_FIT:
        return refused
    if not some:
        _drop_contradicted(a, b, line, partner)
        _drop_strays(partner)
        _fill_between(a, b, line, partner)
        _drop_lonely(partner)
        _drop_outdone(a, b, partner)
        _align_between(a, b, line, partner, same_clock)
        _drop_outdone(a, b, partner)
        _drop_strays(partner)
        if not _supported(a, b, line, partner):
            return refused
    return Alignment(partner, line, False)


def near_line(a: Calls, b: Calls, seed: Line) -> tuple[Ints, Line]:
    """Return the partners of calls by time alone along a line that is known at one moment, and the
    line through them.
    """
    line = seed
    partner = np.full(len(a), -1, dtype=np.int64)
    reach = 2e9
    near = np.zeros(0, dtype=np.int64)
    while len(near) < len(a):
        # a drift that is not yet known lets the clocks part by at most the tolerance within the
        # reach
        partner = np.full(len(a), -1, dtype=np.int64)
        near = np.flatnonzero(np.abs(a.end - seed.at) <= reach)
        within = np.full(len(near), -1, dtype=np.int64)
        match_by_time(a.take(near), b, line, within)
        partner[near] = within
        found = np.flatnonzero(partner >= 0)
        if len(found) >= SOME_TO_FIT:
            differences = (b.end[partner[found]] - a.end[found]).astype(np.float64)
            line = fit_line(a.end[found].astype(np.float64), differences, seed.drift)
        reach *= 4
    return partner, line


def _drop_strays(partner: Ints) -> None:
    """Take back partners that order contradicts: few calls whose shift is not that of those before
    or after them would need calls to be missing on one side and then on the other. After a step of
    a clock the nearest call in time may be such a one.
    """
    runs = _runs(partner)
    for run in runs:
        if len(runs) > 1 and len(run) < FEW:
            partner[run] = -1


def _drop_passed_over(a: Calls, b: Calls, line: Line, partner: Ints) -> None:
    """Take back partners at the edges of stretches beyond which a call without one ends clearly
    nearer: where one side lacks a call there, order goes on with the wrong one.
    """
    while len(passed := _passed_over(a, b, line, partner)):
        partner[passed] = -1


def _passed_over(a: Calls, b: Calls, line: Line, partner: Ints) -> Ints:
    """Calls at the edges of stretches that the next one on either side, without a partner, fits
    clearly better, by how far the calls before them lie off the line."""
    found = np.flatnonzero(partner >= 0)
    if not len(found):
        return found
    off = b.end[partner[found]] - line.apply(a.end[found])
    gap = np.flatnonzero(np.diff(found) > 1)
    first, last = np.r_[0, gap + 1], np.r_[gap, len(found) - 1]
    long = last - first >= FEW
    passed = [found[:0]]
    for edge, beyond in ((last[long], 1), (first[long], -1)):
        usual = np.median([off[edge - beyond * n] for n in range(1, FEW + 1)], axis=0)
        own = np.abs(off[edge] - usual)
        i, j = found[edge], partner[found[edge]]
        nearer = np.zeros(len(i), dtype=np.bool_)
        for here, there in ((i, j + beyond), (i + beyond, j)):
            inside = (here >= 0) & (here < len(a)) & (there >= 0) & (there < len(b))
            here, there = np.where(inside, here, i), np.where(inside, there, j)
            free = ((here == i) | (partner[here] < 0)) & ((there == j) | ~np.isin(there, partner))
            apart = np.abs(b.end[there] - line.apply(a.end[here]) - usual)
            nearer |= free & (apart < ALONE * own) & agree(a, here, b, there)
        passed.append(i[nearer & (own > NOISE * line.scatter)])
    return np.concatenate(passed)


def _drop_lonely(partner: Ints) -> None:
    """Take back partners of calls around which most have none: far from the line some are near
    another call by chance."""
    found = partner >= 0
    partner[found & ~_mostly(found)] = -1


def _drop_contradicted(a: Calls, b: Calls, line: Line, partner: Ints) -> None:
    """Take back partners of which one ended before the other began: votes tell a line coarsely, and
    what lies near it may be the call before."""
    i = np.flatnonzero((partner >= 0) & PROVES[a.op])
    partner[i[~causal(a, i, b, partner[i], line)]] = -1


def _drop_outdone(a: Calls, b: Calls, partner: Ints, chosen: int | None = None) -> None:
    """Take back partners that another shift explains better: where a clock has stepped, or one side
    lacks a call, by about as long as the program takes to repeat itself, the nearest call in time,
    or in order, is another one. Those under the shift `chosen` for all are if a window of them is
    clearly worse, others if they are no better."""
    parts = [np.array_split(run, -(-len(run) // AT_A_TIME)) for run in _runs(partner)]
    for run in chain.from_iterable(parts):
        shift = int(partner[run[0]] - run[0])
        says = _against(a, b, run, shift)
        if not says.size:
            continue
        if shift != chosen and says.sum(axis=1).max() >= 0:
            partner[run] = -1
            continue
        width = min(LEAST, says.shape[1])
        windows = np.lib.stride_tricks.sliding_window_view(says, width, axis=1).sum(axis=2)
        # of many windows and shifts some look better by chance
        clear = PROVEN + np.log(windows.size)
        for first in np.flatnonzero(windows.max(axis=0) >= clear) + run[0]:
            partner[run[(run >= first) & (run <= first + width)]] = -1


def _against(a: Calls, b: Calls, run: Ints, shift: int) -> Floats:
    """What other shifts (a row each) say against that of a run, from one call to the next: the
    logarithm of how many times likelier they make what ends do, and which calls have no partner."""
    i = np.arange(run[0], run[-1] + 1)
    _, ahead = under(shift + np.arange(-RIVALS, RIVALS + 1), a, i, b)
    ahead[RIVALS, ~np.isin(i, run)] = np.nan
    changes = np.abs(np.diff(ahead, axis=1))
    own, others = changes[RIVALS], np.delete(changes, RIVALS, axis=0)
    others = others[np.isfinite(others).any(axis=1)]
    some = np.linspace(0, len(own) - 1, min(len(own), SAMPLE)).astype(np.int64)
    typical = row_medians(np.fmin(own[some], others[:, some]))
    noise = np.maximum(FLOOR_NS, 1.4826 * np.nan_to_num(typical))
    mine, theirs = (
        np.minimum(np.nan_to_num(surprise(of / noise), nan=LACK), LACK) for of in (own, others)
    )
    return np.asarray(mine - theirs)


def _align_between(a: Calls, b: Calls, line: Line, partner: Ints, same_clock: bool) -> None:
    """Give long stretches that are left between partners theirs, judged as if they were all there
    is: after a clock has stepped far, nothing there lies on the line."""
    if (partner < 0).all():
        return
    known = np.flatnonzero(partner >= 0)
    shifts = partner[known] - known
    found = np.r_[-1, known, len(a)]
    there = np.r_[-1, partner[known], len(b)]
    room = np.minimum(np.diff(found), np.diff(there)) - 1
    for turn in np.flatnonzero(room >= SHORT).tolist():
        mine, theirs = (np.arange(x[turn] + 1, x[turn + 1]) for x in (found, there))
        beside = shifts[max(turn - 1, 0) : turn + 1]
        own = _stretch(a.take(mine), b.take(theirs), same_clock, STEPS)
        for run in _runs(own):
            i, j = mine[run], theirs[own[run]]
            near = j[0] - i[0] in beside and _apart(a, i, b, j, line) <= STEP_NS
            if len(run) >= (SHORT if near else STRETCH):
                partner[i] = j


def _apart(a: Calls, i: Ints, b: Calls, j: Ints, line: Line) -> float:
    """How far off the line ends are, ns."""
    return float(np.median(np.abs(b.end[j] - line.apply(a.end[i]))))


def _runs(partner: Ints) -> list[Ints]:
    """The calls that have partners, apart where their shift changes."""
    found = np.flatnonzero(partner >= 0)
    edges = np.flatnonzero(np.diff(partner[found] - found)) + 1
    return np.split(found, edges) if len(found) else []


def _fill_between(a: Calls, b: Calls, line: Line, partner: Ints) -> None:
    """Give calls among partners that lie evenly on both sides the partners that order leaves them,
    where time alone was not clear.
    """
    found = np.flatnonzero(partner >= 0)
    for shift in np.unique(partner[found] - found):
        i = np.arange(max(0, -shift), min(len(a), len(b) - shift))
        possible = agree(a, i, b, i + shift) & _possible(a, i, b, i + shift, line)
        possible &= (partner[i] < 0) & ~np.isin(i + shift, partner)
        filled = True
        while filled:
            between = i[possible & _sandwiched(partner[i] == i + shift) & (partner[i] < 0)]
            partner[between] = between + shift
            filled = len(between) > 0


def _stretch(a: Calls, b: Calls, same_clock: bool, steps: int) -> Ints:
    """Partners in a stretch that is judged as if it were all there is; where nothing explains as
    many calls of one as of the other, in two parts, between which a clock may have stepped."""
    own = align_pair(a, b, same_clock=same_clock).partner
    if steps and len(a) == len(b) >= STRETCH and (own < 0).all():
        place = _place_of_step((b.end - a.end).astype(np.float64))
        for part in np.split(np.arange(len(a)), [place]):
            if len(part) >= SHORT:
                found = _stretch(a.take(part), b.take(part), same_clock, steps - 1)
                own[part] = np.where(found >= 0, found + part[0], -1)
    return own


def _place_of_step(values: Floats) -> int:
    """Where to divide values so that both parts lie nearest to their own means."""
    rest = values - np.median(values)
    count = np.arange(1, len(rest))
    before = np.cumsum(rest)[:-1]
    return 1 + int((before**2 / count + (rest.sum() - before) ** 2 / count[::-1]).argmax())


def _mostly(kept: Flags) -> Flags:
    """Whether most of the nine calls around each are kept, of fewer at the edges."""
    sums = np.cumsum(np.r_[0, kept])
    at = np.arange(len(kept))
    low, high = np.maximum(at - 4, 0), np.minimum(at + 5, len(kept))
    return np.asarray(2 * (sums[high] - sums[low]) > high - low)


def _sandwiched(kept: Flags) -> Flags:
    """Calls that have two of four calls on each side, or the end, confirmed by the clocks.

    Only order is left for them. Their ends may lie far apart, as an all-to-all's do when the ranks
    exchange different amounts.
    """
    padded = np.concatenate([[True] * 4, kept, [True] * 4]).astype(np.int64)
    sums = np.concatenate([[0], np.cumsum(padded)])
    at = np.arange(len(kept)) + 4
    return np.asarray((sums[at] - sums[at - 4] >= 2) & (sums[at + 5] - sums[at + 1] >= 2))


def _few_between(kept: Flags, apart: Flags) -> Flags:
    """Calls between others that are confirmed, those before a step or those after it `apart`:
    fewer than can be judged by themselves."""
    found = np.zeros(len(kept), dtype=np.bool_)
    for low, high in np.flatnonzero(np.diff(np.r_[False, ~kept, False])).reshape(-1, 2):
        if low > 0 and high < len(kept) and high - low < SHORT:
            found[low:high] = apart[low - 1] or apart[high]
    return found


def causal(a: Calls, i: Ints, b: Calls, j: Ints, line: Line, off_ns: float | None = None) -> Flags:
    """Whether neither call ends before the other, if it is awaited, has started, to within the
    noise of the line, or to within `off_ns`."""
    spare = 20_000.0 + (3 * line.scatter if off_ns is None else off_ns)
    forth = (line.apply(a.start[i]) <= b.end[j] + spare) | ~_may_await(b, j, a, i)
    back = (b.start[j] <= line.apply(a.end[i]) + spare) | ~_may_await(a, i, b, j)
    return np.asarray(forth & back)


def _may_await(a: Calls, i: Ints, b: Calls, j: Ints) -> Flags:
    """Whether calls i of a wait for calls j of b if they are one operation, or nothing tells: of a
    broadcast all wait for the root alone."""
    waits, awaited = a.roles(i)[0], b.roles(j)[1]
    return np.asarray((waits & awaited) | (a.root[i] < 0) | (b.root[j] < 0))


def _possible(a: Calls, i: Ints, b: Calls, j: Ints, line: Line) -> Flags:
    """Whether causality allows calls that order alone makes partners, and neither ends nearer to
    one beside the other that it may be as well."""
    ends = line.apply(a.end)
    apart = np.abs(b.end[j] - ends[i])
    possible = causal(a, i, b, j, line)
    for step in (-1, 1):
        k, m = np.clip(i + step, 0, len(a) - 1), np.clip(j + step, 0, len(b) - 1)
        possible &= (apart <= np.abs(b.end[m] - ends[i])) | ~agree(a, i, b, m)
        possible &= (apart <= np.abs(b.end[j] - ends[k])) | ~agree(a, k, b, j)
    return possible


def _supported(a: Calls, b: Calls, line: Line, partner: Ints) -> bool:
    """Whether at least half of the calls in the time that both recorded have found a partner."""
    spare = tolerance(line)
    on_b = line.apply(a.end)
    mine = (on_b >= b.end.min() - spare) & (on_b <= b.end.max() + spare)
    theirs = (b.end >= on_b.min() - spare) & (b.end <= on_b.max() + spare)
    return 2 * int((partner >= 0).sum()) >= max(int(mine.sum()), int(theirs.sum()), 1)
