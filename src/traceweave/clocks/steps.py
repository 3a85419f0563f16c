"""Where a clock stepped: between two neighbouring anchors, where lines through those before and
after do not meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.medians import running_median

WINDOW = 16
"""Anchors on either side that a step is judged by,"""
LEAST = 6
"""and how many must be there."""
SIGMAS = 7.0
"""How far apart, in standard errors, lines before and after a step must be,"""
LEAST_NS = 15_000.0
"""and at least,"""
NOISE = 1.5
"""and in units of the noise of a single end."""
FINEST_NS = 100.0
"""No end is taken for better known."""
BETTER = 2.0
"""How many times farther ends must lie from a curve of as many unknowns."""
MOST = 0.9
"""of this share of them, the nearest ones."""
ROUNDS = 20
"""Of weights, until distances from a fit are least in the sum."""


@dataclass(frozen=True)
class Candidate:
    """Where a clock may have stepped."""

    clear: float
    """In units of what is needed."""
    place: int
    """Number of the first anchor after it."""
    low: int
    """The anchors that it is judged by."""
    high: int


def clearest_step(at: Floats, behind: Floats, known: Ints) -> Candidate | None:
    """Return the clearest step in how far a clock's ends lie behind those of others (ns, in the
    order of `at`), beside those before the anchors `known`; None if none is clear.
    """
    borders = [0, *sorted(known.tolist()), len(at)]
    best: Candidate | None = None
    for low, high in pairwise(borders):
        found = _clearest(at[low:high], behind[low:high])
        if found is not None and (best is None or found[0] > best.clear):
            place = low + found[1]
            ends = max(low, place - WINDOW), min(high, place + WINDOW) - 1
            best = Candidate(found[0], place, *ends)
    return best


def _clearest(at: Floats, behind: Floats) -> tuple[float, int] | None:
    """How clear the clearest step of a stretch is, and its place."""
    count = len(at)
    if count < 2 * LEAST or at[-1] <= at[0]:
        return None
    middle = running_median(behind)
    rest = behind - middle
    noise = 1.1 * 1.4826 * float(np.median(np.abs(rest))) + FINEST_NS
    calm = middle + np.clip(rest, -3 * noise, 3 * noise)
    places = np.arange(LEAST, count - LEAST + 1)
    left, sure_left = _edges(at, calm, places, -1)
    right, sure_right = _edges(at, calm, places, +1)
    needed = np.maximum(SIGMAS * noise * np.hypot(sure_left, sure_right), NOISE * noise)
    clear = np.abs(right - left) / np.maximum(needed, LEAST_NS)
    best = int(clear.argmax())
    if clear[best] < 1:
        return None
    return float(clear[best]), _placed(at, calm, int(places[best]))


def _edges(at: Floats, values: Floats, places: Ints, side: int) -> tuple[Floats, Floats]:
    """Where a line through the anchors on one side of each place meets the gap before it, and its
    standard error in units of the noise."""
    low = np.maximum(places - WINDOW, 0) if side < 0 else places
    high = places if side < 0 else np.minimum(places + WINDOW, len(at))
    gap = (at[places - 1] + at[np.minimum(places, len(at) - 1)]) / 2
    t = (at - at[0]) / 1e9
    sums = [np.r_[0.0, np.cumsum(x)] for x in (np.ones_like(t), t, t * t, values, t * values)]
    n, st, stt, sy, sty = (s[high] - s[low] for s in sums)
    spread = np.maximum(stt - st * st / n, 1e-18)
    slope = (sty - st * sy / n) / spread
    reach = (gap - at[0]) / 1e9 - st / n
    return sy / n + slope * reach, np.sqrt(1 / n + reach**2 / spread)


def _placed(at: Floats, values: Floats, near: int) -> int:
    """The place beside `near` that leaves least distance to lines before and after it."""
    low, high = max(0, near - WINDOW), min(len(at), near + WINDOW)
    guard = min(LEAST // 2, near - low - 2, high - near - 2)
    inside = slice(low, high)
    before, after = (
        np.abs(values[inside] - _line(at[part], values[part], at[inside]))
        for part in (slice(low, near - guard), slice(near + guard, high))
    )
    cost = np.r_[0.0, np.cumsum(before)] + np.r_[np.cumsum(after[::-1])[::-1], 0.0]
    return int(np.clip(low + int(cost.argmin()), 1, len(at) - 1))


def _line(at: Floats, values: Floats, where: Floats) -> Floats:
    """What the line through values says elsewhere; a level, if all are of one moment."""
    moment, level = at.mean(), values.mean()
    spread = float(np.sum((at - moment) ** 2))
    slope = float(np.sum((at - moment) * (values - level))) / spread if spread else 0.0
    return np.asarray(level + slope * (where - moment))


def steps_show(at: Floats, behind: Floats) -> bool:
    """Whether a clock's ends, so far behind those of others, step: clearly, and as no smooth curve
    does."""
    known = np.zeros(0, dtype=np.int64)
    while (found := clearest_step(at, behind, known)) is not None:
        known = np.append(known, found.place)
    if not len(known):
        return False
    x = 2 * (at - at[0]) / max(float(at[-1] - at[0]), 1.0) - 1
    stepped = np.arange(len(at))[:, None] >= known
    steps = _distance(np.column_stack([np.ones_like(x), x, stepped]), behind)
    curve = _distance(np.polynomial.legendre.legvander(x, 1 + 2 * len(known)), behind)
    return BETTER * steps < curve


def _distance(columns: Floats, values: Floats) -> float:
    """Mean distance of values from what columns can make of most of them."""
    weight = np.ones(len(values))
    for _ in range(ROUNDS):
        root = np.sqrt(weight)
        found = np.linalg.lstsq(columns * root[:, None], values * root, rcond=None)[0]
        apart = np.abs(values - columns @ found)
        weight = 1 / np.maximum(apart, FINEST_NS)
    return float(np.sort(apart)[: int(np.ceil(MOST * len(apart)))].mean())
