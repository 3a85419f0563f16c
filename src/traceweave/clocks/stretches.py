"""A bend as lines: as few as its own error warrants, and apart from where a step lies."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.bends import Bend, passed

LEAST_NS = 500.0
"""Lines are never nearer to a curve than this."""


@dataclass(frozen=True)
class Stretch:
    """A line of a bend: from when to when on the rank's clock, ns."""

    low: float
    high: float
    ahead: float
    """What it adds in the middle, ns."""
    turn: float
    """By how much more per ns."""
    unsure: float
    """By how much it may be off the bend there, ns, if each clock was set at most once."""
    open: float
    """The same, however often clocks were set."""
    stepping: bool
    """Somewhere in it the clock stepped."""

    @property
    def middle(self) -> float:
        """The moment at which it adds `ahead`."""
        return (self.low + self.high) / 2


def stretches_of(bend: Bend, first: float, last: float) -> list[Stretch]:
    """Return the lines of a bend between the first and last event of a rank."""
    inside = bend.at[(bend.at > first) & (bend.at < last)]
    knots = np.concatenate([[first], inside, [last]])
    width = max(LEAST_NS, bend.error / 2)
    turns, values = _polygon(knots, bend.curve(knots), width)
    edges = [edge for step in bend.steps for edge in (step.since, step.until)]
    borders = np.unique(np.clip(np.concatenate([turns, edges]), first, last))
    result = []
    for low, high in pairwise(borders.tolist()):
        number = int(np.clip(np.searchsorted(turns, (low + high) / 2) - 1, 0, len(turns) - 2))
        slope = float(np.diff(values)[number] / np.diff(turns)[number])
        middle = np.array([(low + high) / 2])
        made = [(step.height, float(passed(middle, step)[0])) for step in bend.steps]
        stepping = any(share == 0.5 for _, share in made)
        lines = width if len(turns) > 2 else 0.0
        unsure = lines + sum(abs(height) / 2 for height, share in made if share == 0.5)
        doubt = max(float(side[0]) for side in bend.doubt(middle))
        result.append(
            Stretch(
                low,
                high,
                float(values[number] + slope * (middle[0] - turns[number]))
                + sum(height * share for height, share in made),
                slope,
                unsure,
                max(unsure, lines + doubt),
                stepping,
            )
        )
    return result


def _polygon(at: Floats, values: Floats, width: float) -> tuple[Floats, Floats]:
    """The fewest knots whose lines stay within `width` of the curve, each line as long as can be;
    and the values there.
    """
    turns, found = [0], [float(values[0])]
    while turns[-1] < len(at) - 1:
        here, value = turns[-1], found[-1]
        run = at[here + 1 :] - at[here]
        low = np.maximum.accumulate((values[here + 1 :] - width - value) / run)
        high = np.minimum.accumulate((values[here + 1 :] + width - value) / run)
        reach = int(np.flatnonzero(low <= high)[-1]) if (low <= high).any() else 0
        own = (values[here + 1 + reach] - value) / run[reach]
        slope = float(np.clip(own, low[reach], high[reach])) if low[reach] <= high[reach] else own
        turns.append(here + 1 + reach)
        found.append(value + slope * float(run[reach]))
    return at[turns], np.array(found)
