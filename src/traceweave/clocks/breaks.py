"""Finding the moment where one line no longer describes the clocks: a step, or a slow wander.

After a fit, a rank whose clock kept its rate has residuals without structure in time. Where the
medians of stretches of time stray further than their noise allows, the run is cut in two at the
best place, and each part is fitted for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.fit import Fit
from traceweave.clocks.matrices import Block, row_medians

LEAST = 40
"""Instances that a piece must keep."""
LEAST_NS = 100_000_000
"""Length that a piece must keep."""
SIGMAS = 6.0
"""How far a stretch's median must stray, in its standard errors."""
STRAY_NS = 10_000.0
"""How far it must stray at least: rings alone move ends by some microseconds between phases of a
step.
"""


def find_break(fit: Fit, moments: list[Floats]) -> float | None:
    """Return the moment (common clock, ns) at which the clocks need a new line, or None.

    `moments`: per block and row, when the instance ended on the common clock.
    """
    worst: tuple[float, Floats, Floats] | None = None
    for residual, moment in zip(fit.clean, moments, strict=True):
        order = np.argsort(moment, kind="stable")
        for at, values in _series(moment[order], residual[order]):
            stray = _stray(values)
            column = int(stray.argmax())
            if stray[column] > 1 and (worst is None or stray[column] > worst[0]):
                worst = (float(stray[column]), at, values[:, column])
    if worst is None:
        return None
    return _best_cut(worst[1], worst[2])


def cut(blocks: list[Block], moments: list[Floats], at: float) -> tuple[list[Block], list[Block]]:
    """Return the instances that ended before `at`, and the others."""
    before = [_rows(b, m < at) for b, m in zip(blocks, moments, strict=True)]
    after = [_rows(b, m >= at) for b, m in zip(blocks, moments, strict=True)]
    return [b for b in before if b is not None], [b for b in after if b is not None]


def _rows(block: Block, kept: Flags) -> Block | None:
    if not kept.any():
        return None
    sends = None if block.sends is None else block.sends[kept]
    return replace(
        block,
        start=block.start[kept],
        end=block.end[kept],
        transfer=block.transfer[kept],
        sends=sends,
    )


def _series(at: Floats, residual: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Times and residuals of the columns of one block: together where no value is absent."""
    known = np.isfinite(residual)
    if known.all():
        if len(at) >= 2 * LEAST:
            yield at, residual
        return
    for column in np.flatnonzero(known.sum(axis=0) >= 2 * LEAST):
        rows = known[:, column]
        yield at[rows], residual[rows, column : column + 1]


def _stray(residual: Floats) -> Floats:
    """How far medians of stretches stray, per column, in units of what is allowed."""
    stretches = np.array_split(residual, min(24, len(residual) // 10))
    medians = np.array([np.median(s, axis=0) for s in stretches])
    noise = np.array([np.median(np.abs(s - np.median(s, axis=0)), axis=0) for s in stretches])
    error = 1.4826 * 1.2533 * np.median(noise, axis=0) / np.sqrt(len(stretches[0]))
    # the second largest: one stretch alone may be an accident of the program
    far = np.sort(np.abs(medians - np.median(medians, axis=0)), axis=0)[-2]
    return np.asarray(far / np.maximum(SIGMAS * error, STRAY_NS))


def _best_cut(at: Floats, residual: Floats) -> float | None:
    """The moment that leaves least distance to a line on either side."""
    places = np.linspace(LEAST, len(at) - LEAST, 49).astype(np.int64)
    costs = [_cost(at, residual, int(place)) for place in np.unique(places)]
    place = int(np.unique(places)[int(np.argmin(costs))])
    step = max(1, (len(at) - 2 * LEAST) // 24)
    nearby = np.arange(max(LEAST, place - step), min(len(at) - LEAST, place + step) + 1)
    left, right = _line(at[:place], residual[:place]), _line(at[place:], residual[place:])
    forth = np.concatenate([[0.0], np.cumsum(np.abs(residual - np.polyval(left, at)))])
    back = np.concatenate([[0.0], np.cumsum(np.abs(residual - np.polyval(right, at)))])
    total = forth[nearby] + back[-1] - back[nearby]
    place = int(nearby[int(np.argmin(total))])
    moment = float((at[place - 1] + at[place]) / 2)
    return moment if min(moment - at[0], at[-1] - moment) >= LEAST_NS else None


def _cost(at: Floats, residual: Floats, place: int) -> float:
    return sum(
        float(np.abs(y - np.polyval(_line(x, y), x)).sum())
        for x, y in ((at[:place], residual[:place]), (at[place:], residual[place:]))
    )


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """Slope and intercept through medians of stretches."""
    stretches = np.array_split(np.arange(len(x)), min(8, max(2, len(x) // 8)))
    u = np.array([np.median(x[s]) for s in stretches])
    v = np.array([np.median(y[s]) for s in stretches])
    spread = float(np.sum((u - u.mean()) ** 2))
    slope = float(np.sum((u - u.mean()) * (v - v.mean())) / spread) if spread > 0 else 0.0
    return slope, float(v.mean() - slope * u.mean())


def moments_of(blocks: list[Block], fit: Fit, middle: Floats) -> list[Floats]:
    """When every instance ended on the common clock, per block and row, ns."""
    return [
        row_medians(block.shifted(fit.offset, fit.drift, middle).end).ravel() for block in blocks
    ]


def local_border(blocks: list[Block], moments: list[Floats], border: float, ranks: Ints) -> Floats:
    """Per rank, its own time between its last end before `border` and its first after; NaN without
    ends around it.
    """
    last, first = np.full(len(ranks), -np.inf), np.full(len(ranks), np.inf)
    for block, moment in zip(blocks, moments, strict=True):
        early, late = block.end[moment < border], block.end[moment >= border]
        np.maximum.at(last, block.ranks, np.fmax.reduce(early, axis=0, initial=-np.inf))
        np.minimum.at(first, block.ranks, np.fmin.reduce(late, axis=0, initial=np.inf))
    known = np.isfinite(last) & np.isfinite(first)
    return np.where(known, (np.where(known, last, 0) + np.where(known, first, 0)) / 2, np.nan)
