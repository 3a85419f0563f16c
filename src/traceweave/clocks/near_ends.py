"""How far a clock may be off at one moment, by the ends near it alone.

Causality bounds a clock that is what was fitted to it. A step among few calls shows in no line, and
calls on either side of it then prove together what is true on neither: but the ends on the side of
the moment tell how far off the fit is there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats
from traceweave.clocks.matrices import Block
from traceweave.clocks.residuals import scatter_of_few

SHARE = 8
"""At least one end of so many, before, about and after the moment, is asked,"""
LEAST = 2
"""and so many; then twice as many, and so on,"""
SIGMAS = 3.0
"""and believed to so many standard errors."""
LOOSE_NS = 1_000_000.0
"""Ends that are known no better than this, as gloo's, say less of a clock than causality does,
unless they contradict it."""


@dataclass(frozen=True)
class Lateness:
    """How late ends of a rank are: in one series or, against others each, its own and that of the
    rank it is told against.
    """

    series: tuple[tuple[Floats, Floats], ...]
    """Moments in order, on the rank's own clock, and ns."""
    moved_ns: float = 0.0
    """By how much its clock was moved away from its ends."""

    @property
    def told(self) -> Floats:
        """Moments at which ends tell the rank from the one it is told against, in order."""
        return self.series[0][0] if len(self.series) == 1 else np.zeros(0)

    def left_open(self, moment: float, low: float, high: float) -> float:
        """Return how far off the clock may be at a moment, ns, by the ends between `low` and
        `high`; 0 without any."""
        found = sum(_left_open(at, late, moment, low, high) for at, late in self.series)
        return found + abs(self.moved_ns) if found else 0.0


def late_against(
    blocks: list[Block], late: list[Floats], columns: list[tuple[int, int]], others: Flags
) -> tuple[Floats, Floats]:
    """Return the ends of a rank, which has these columns of blocks, in the order of time, and how
    late each is against the mean of those of `others` in the same call.

    `late`: per block, how late ends are against any common time.
    """
    at, found = [np.zeros(0)], [np.zeros(0)]
    for number, column in columns:
        theirs = others[blocks[number].ranks]
        theirs[column] = False
        mine, among = late[number][:, column], late[number][:, theirs]
        known = np.isfinite(mine) & np.isfinite(among).any(axis=1)
        at.append(blocks[number].end[known, column])
        found.append(mine[known] - np.nanmean(among[known], axis=1))
    return in_order(np.concatenate(at), np.concatenate(found))


def in_order(at: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Return both in the order of time."""
    order = np.argsort(at, kind="stable")
    return at[order], values[order]


def _left_open(at: Floats, late: Floats, moment: float, low: float, high: float) -> float:
    first, last = np.searchsorted(at, low), np.searchsorted(at, high, side="right")
    near, count = late[first:last], int(last - first)
    if not count:
        return 0.0
    noise = scatter_of_few(late) if len(late) > 2 else float(np.ptp(late))
    here, farthest = int(np.abs(at[first:last] - moment).argmin()), 0.0
    for some in _counts(max(LEAST, -(-len(at) // SHARE)), count):
        error = SIGMAS * noise / float(np.sqrt(some))
        for begin in (here - some + 1, here - some // 2, here):
            begin = min(max(begin, 0), count - some)
            middle = float(np.median(near[begin : begin + some]))
            if error <= LOOSE_NS or abs(middle) > error:
                farthest = max(farthest, abs(middle) + error)
    return farthest


def _counts(least: int, most: int) -> list[int]:
    """`least` and what comes of doubling it, and `most`, which is the highest."""
    found = [most]
    while least < most:
        found.append(least)
        least *= 2
    return found
