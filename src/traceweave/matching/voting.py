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
from traceweave.matching.coarse_clocks import Line
from traceweave.matching.shifts import CHANCE, STEP_NS

STRETCHES = 6
LENGTH = 64
"""Calls of a stretch: short enough for the drift inside it not to matter."""
WIDTH_NS = 60_000.0
"""Votes that lie within this count for one offset."""
QUORUM = 0.5
"""Share of a stretch's calls that must agree on the winner."""
SOME = 0.2
"""The same where a part of the calls has partners elsewhere."""
LEAD = 1.5
"""How many times more votes the winner must have than any other offset."""


def vote(a: Calls, b: Calls, limit_ns: float, quorum: float) -> Line | None:
    """Return the offset from a to b that most calls of several stretches of a vote for, or None
    without a majority.
    """
    seeds = []
    length = min(LENGTH, len(a))
    for first in np.unique(np.linspace(0, len(a) - length, STRETCHES).astype(np.int64)):
        stretch = np.arange(first, first + length)
        offset, share, lead, chance = _winner(_votes(a, b, stretch, limit_ns), length)
        if share >= quorum and lead >= LEAD and chance <= CHANCE:
            seeds.append((share, float(np.median(a.end[stretch])), offset))
    if not seeds:
        return None
    _, at, offset = max(seeds)
    spread = [abs(o - offset) - 2e-4 * abs(t - at) for _, t, o in seeds]
    # a clock that has stepped meanwhile lets few stretches vote for one offset
    if sum(distance <= STEP_NS for distance in spread) * 2 <= len(seeds):
        return None
    return Line(offset, 0.0, at, WIDTH_NS / 2)


def _votes(a: Calls, b: Calls, stretch: np.ndarray, limit_ns: float) -> Floats:
    """Sorted differences of ends over all pairs that may be one operation."""
    order = np.argsort(b.end, kind="stable")
    ends = b.end[order]
    low = np.searchsorted(ends, a.end[stretch] - int(limit_ns))
    high = np.searchsorted(ends, a.end[stretch] + int(limit_ns))
    i = np.repeat(stretch, high - low)
    first = np.repeat(low - np.concatenate([[0], np.cumsum(high - low)[:-1]]), high - low)
    j = order[first + np.arange(len(i))]
    fits = agree(a, i, b, j)
    return np.sort((b.end[j[fits]] - a.end[i[fits]]).astype(np.float64))


def _winner(votes: Floats, voters: int) -> tuple[float, float, float, float]:
    """Offset with most votes, its share of the voters, its lead over any other offset, and how
    likely chance gives any offset as many."""
    if not len(votes):
        return 0.0, 0.0, 0.0, 1.0
    counts = _within(votes, WIDTH_NS)
    best = int(counts.argmax())
    inside = votes[best : best + counts[best]]
    apart = (votes < votes[best] - 2 * WIDTH_NS) | (votes > votes[best] + 2 * WIDTH_NS)
    second = int(counts[apart].max(initial=0))
    as_near = _within(votes, float(inside[-1] - inside[0]))[apart]
    return (
        float(np.median(inside)),
        len(inside) / voters,
        counts[best] / max(1, second),
        _chance(len(inside), voters - 1, as_near - 1, len(votes)),
    )


def _within(votes: Floats, width: float) -> Ints:
    """How many votes lie at every vote or after it, within the width."""
    return np.searchsorted(votes, votes + width, side="right") - np.arange(len(votes))


def _chance(winners: int, others: int, joined: Ints, votes: int) -> float:
    """Binomial bound: the other voters join a vote as often as they join those that are not the
    winner's, by Laplace's rule, as there may be few of these; and any vote may be the winner's.
    """
    usual = min(1.0, (int(joined.sum()) + 1) / (len(joined) * others + 2))
    enough = range(min(winners - 1, others), others + 1)
    tail = sum(math.comb(others, n) * usual**n * (1 - usual) ** (others - n) for n in enough)
    return votes * tail
