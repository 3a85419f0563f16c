"""The offset between two clocks by majority vote, for sequences that no single shift can explain.

Every pair of a call of one rank and a call of the other that may be one operation votes for the
difference of their ends. True partners all vote for one offset, whatever is missing on either side;
the others spread.
"""

from __future__ import annotations

import math

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.calls import Calls, agree
from traceweave.matching.coarse_clocks import DRIFT_LIMIT, Line, slope
from traceweave.matching.evidence import FLOOR_NS
from traceweave.matching.shifts import ANY_NS, CHANCE, STEP_NS, limits_ns

STRETCHES = 6
LENGTH = 64
"""Calls of a stretch."""
WIDTH_NS = 60_000.0
"""Votes that lie within this count for one offset, and within what clocks may drift in a stretch.
"""
QUORUM = 0.5
"""Share of a stretch's calls that must agree on the winner."""
SOME = 0.2
"""The same where a part of the calls has partners elsewhere."""
LEAD = 1.5
"""How many times more votes the winner must have than any other offset."""
SPARSE = 8
"""Cells per vote beyond which votes are sorted at once, and"""
APART = 8
"""cells that lie apart whichever of them has the winner."""
MOST_CALLS = 1 << 16
"""More than this are not looked through from end to end, which would take gigabytes."""


def vote(a: Calls, b: Calls, *, same_clock: bool, some: bool) -> Line | None:
    """Return the line from a to b that most calls of several stretches of a vote for, or None
    without a majority; `some`: only part of the calls need to have partners, and neither to drift
    apart much meanwhile nor to be far apart: calls of other pairs are too many to look so far
    around.
    """
    limits = limits_ns(same_clock)[: 1 if some or len(b) > MOST_CALLS else None]
    lines = (_vote_within(a, b, limit_ns, some=some) for limit_ns in limits)
    return next((line for line in lines if line is not None), None)


def _vote_within(a: Calls, b: Calls, limit_ns: float, *, some: bool) -> Line | None:
    """The line that calls no further apart than the limit vote for.

    Where steps take evenly long, calls a step apart vote for one offset as well. Then only those of
    the same step vote, if both know theirs.
    """
    line = _vote(a, b, limit_ns, some=some, in_step=False)
    if line is None and (a.step >= 0).any() and (b.step >= 0).any():
        line = _vote(a, b, limit_ns, some=some, in_step=True)
    return line


def _vote(a: Calls, b: Calls, limit_ns: float, *, some: bool, in_step: bool) -> Line | None:
    seeds = []
    length = min(LENGTH, len(a))
    least = length * (SOME if some else QUORUM)
    order = np.argsort(b.end, kind="stable")
    for first in np.unique(np.linspace(0, len(a) - length, STRETCHES).astype(np.int64)):
        stretch = np.arange(first, first + length)
        drifted = 0.0 if some else DRIFT_LIMIT * float(np.ptp(a.end[stretch]))
        votes, at = _votes(a, b, order, stretch, limit_ns, in_step)
        if _undecided(votes, WIDTH_NS + drifted, least):
            continue
        ascending = np.argsort(votes, kind="stable")
        votes, at = votes[ascending], at[ascending]
        winner, lead = _winner(votes, WIDTH_NS + drifted)
        if lead < LEAD:
            continue
        line, agreed = _line(at[winner], votes[winner], drifted > WIDTH_NS)
        if agreed >= least and _chance(votes, winner, agreed, length, b) <= CHANCE:
            seeds.append((agreed, line))
    if not seeds:
        return None
    _, best = max(seeds, key=lambda seed: seed[0])
    spare = [STEP_NS + DRIFT_LIMIT * abs(line.at - best.at) for _, line in seeds]
    spread = [abs(line.offset - best.ahead(line.at)) for _, line in seeds]
    # a clock that has stepped meanwhile lets few stretches vote for one offset
    near = sum(apart <= most for apart, most in zip(spread, spare, strict=True))
    return None if near * 2 <= len(seeds) else best


def _votes(
    a: Calls, b: Calls, order: Ints, stretch: Ints, limit_ns: float, in_step: bool
) -> tuple[Floats, Ints]:
    """Differences of ends over all pairs that may be one operation, and when those of a ended;
    `order`: that of the ends of b."""
    ends = b.end[order]
    low, high = np.zeros(len(stretch), dtype=np.int64), np.full(len(stretch), len(ends))
    if limit_ns < ANY_NS:
        low = np.searchsorted(ends, a.end[stretch] - int(limit_ns))
        high = np.searchsorted(ends, a.end[stretch] + int(limit_ns))
    i = np.repeat(stretch, high - low)
    first = np.repeat(low - np.concatenate([[0], np.cumsum(high - low)[:-1]]), high - low)
    j = order[first + np.arange(len(i))]
    fits = agree(a, i, b, j)
    if in_step:
        fits &= (a.step[i] == b.step[j]) & (a.step[i] >= 0)
    differences = (b.end[j[fits]] - a.end[i[fits]]).astype(np.float64)
    return differences, a.end[i[fits]]


def _undecided(votes: Floats, width: float, least: float) -> bool:
    """Whether counts of cells as wide as votes may lie apart say already, without sorting, that no
    offset has so many votes, or that none leads: what lies within a width is in two cells that are
    neighbours, and what is in one lies within a width.
    """
    if not len(votes) or np.ptp(votes) > SPARSE * width * len(votes):
        return not len(votes)
    cells = np.bincount(((votes - votes.min()) / width).astype(np.int64), minlength=2)
    most, best = int((cells[1:] + cells[:-1]).max()), int(cells.argmax())
    # one of the two lies apart from any winner
    other = max(cells[: max(best - APART, 0)].max(initial=0), cells[best + APART :].max(initial=0))
    return most < least or most < LEAD * other


def _winner(votes: Floats, width: float) -> tuple[Ints, float]:
    """Places of the most votes that lie within a width, and their lead over any others."""
    if not len(votes):
        return np.zeros(0, dtype=np.int64), 0.0
    counts = _within(votes, width)
    best = int(counts.argmax())
    apart = np.abs(votes - votes[best]) > 2 * width
    return best + np.arange(counts[best]), counts[best] / max(1, int(counts[apart].max(initial=0)))


def _within(votes: Floats, width: float) -> Ints:
    """How many votes lie at every vote or after it, within the width."""
    return np.searchsorted(votes, votes + width, side="right") - np.arange(len(votes))


def _chance(votes: Floats, winner: Ints, agreed: int, voters: int, b: Calls) -> float:
    """How likely chance brings so many votes as near to any one as these lie: each other voter does
    as often as it joins a vote that is not the winner's, or one anywhere among the calls of b.
    """
    reach = min(WIDTH_NS, max(FLOOR_NS, float(np.ptp(votes[winner]))))
    others = np.delete(_within(votes, reach), winner) - 1
    joins = float(others.mean()) / max(1, voters - 1) if len(others) else 0.0
    anywhere = reach * len(b) / max(1.0, float(np.ptp(b.end)))
    usual = min(1.0, max(joins, anywhere))
    rest = voters - 1
    enough = range(min(agreed - 1, rest), rest + 1)
    tail = sum(math.comb(rest, n) * usual**n * (1 - usual) ** (rest - n) for n in enough)
    return len(votes) * tail


def _line(at: Ints, votes: Floats, drifts: bool) -> tuple[Line, int]:
    """The line that most of these votes lie along, and how many; with a drift only if they are so
    far apart that it shows."""
    middle = float(np.median(at))
    drift = slope(at.astype(np.float64), votes) if drifts else 0.0
    level = np.sort(votes - drift * (at - middle))
    counts = _within(level, WIDTH_NS)
    best, agreed = int(counts.argmax()), int(counts.max())
    offset = float(np.median(level[best : best + agreed]))
    return Line(offset, drift, middle, WIDTH_NS / 2), agreed
