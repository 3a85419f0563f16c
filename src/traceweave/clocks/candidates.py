"""What ends say of one clock beside what all others say: where it seems to step, whether it bends,
and by how much more likely that makes the ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.ends import LEAST
from traceweave.clocks.model import BENDS, NU, STEP_NS, TINY, Model, Step
from traceweave.clocks.start import DRIFT
from traceweave.clocks.variances import price

HUBER = 1.5
"""Scales beyond which an end counts as one that far when a step is looked for."""


@dataclass(frozen=True)
class Told:
    """Per instance that a clock shares with others: how far its ends lie after those of the
    others, how exactly one end is known (inverse variance), and for how many they count."""

    row: Ints
    apart: Floats
    info: Floats
    share: Floats

    def score(self, most: float) -> Floats:
        """By how much the likelihood grows if they are moved, none farther than `most` scales."""
        scale = np.sqrt(self.info)
        return np.asarray(self.share * scale * np.clip(self.apart * scale, -most, most))

    def likely(self, rest: Floats) -> Floats:
        """Log likelihood of each, if that much of it is left."""
        return np.asarray(-self.share * (NU + 1) / 2 * np.log1p(self.info * rest**2 / NU))

    def fit(self, x: Floats, prior: Floats) -> tuple[Floats, float]:
        """The most likely multiples of columns, and their log likelihood: from all ends alike to
        those that agree."""
        value: Floats = np.zeros(x.shape[1])
        for wide in (np.inf, 16.0, 4.0, 2.0, 1.0, 1.0, 1.0):
            near = (NU + 1) / (NU + self.info * ((self.apart - x @ value) / wide) ** 2)
            weight = self.share * self.info * near
            left, right = (x.T * weight) @ x + np.diag(prior), x.T @ (weight * self.apart)
            value = np.asarray(np.linalg.solve(left, right))
        told = self.likely(self.apart - x @ value).sum() - (prior * value**2).sum() / 2
        return value, float(told)


def told_of(model: Model, unit: int, weighed: tuple[Floats, Floats]) -> Told:
    """Return what instances say that a clock shares with others; `weighed` is how far all ends lie
    from the common ends, and their weights."""
    ends, (rest, near) = model.ends, weighed
    mine = model.of == unit
    count, ahead, beside, drawn = (
        np.bincount(ends.row[mine], of[mine], ends.rows)
        for of in (np.ones_like(rest), rest, near, near * rest)
    )
    size, total, pulled = (
        np.bincount(ends.row, of, ends.rows) for of in (np.ones_like(rest), near, near * rest)
    )
    row = np.flatnonzero((count > 0) & (count < size))
    count, size = count[row], size[row]
    apart = ahead[row] / count - (pulled - drawn)[row] / (total - beside)[row]
    cell = ends.cell[row]
    share = model.effect[cell] * count * (size - count) / size
    return Told(row, apart, 1 / model.sigma[cell] ** 2, share)


def candidates(model: Model) -> list[tuple[float, list[Step]]]:
    """What each clock seems to do: a step, or two, where it comes back and neither may pay alone;
    and what that gains beyond what it costs; best first."""
    weighed = model.weigh()
    found = [pair for unit in range(len(model.fixed)) for pair in _candidate(model, unit, weighed)]
    return sorted(found, key=lambda pair: -pair[0])


def _candidate(
    model: Model, unit: int, weighed: tuple[Floats, Floats]
) -> list[tuple[float, list[Step]]]:
    """The step of a clock that gains most given its own line, bend and steps, and the two, as far
    as they pay; none where few ends tell."""
    told = told_of(model, unit, weighed)
    if len(told.row) < LEAST:
        return []
    at, least = model.when[told.row], price(model)
    x, prior = _own(model, unit, told.row)
    scored = _moment(told, x, prior, at, HUBER)
    seen = _moment(told, x, prior, at, np.inf)
    if max(scored, seen)[0] < least:  # tails gain no more than squares
        return []
    without = max(told.fit(x, prior)[1], float(told.likely(told.apart).sum()))
    once = [_gain(told, x, prior, at, place) for place in {scored[1], seen[1]}]
    gain, place = max([scored, *((gain - without, place) for gain, place in once)])
    both, places = _there_and_back(told, x, prior, at, seen[1])
    return [
        (gain - cost, [Step(unit, float(at[place - 1]), float(at[place])) for place in some])
        for gain, cost, some in ((gain, least, [place]), (both - without, 2 * least, places))
        if gain >= cost
    ]


def _own(model: Model, unit: int, row: Ints) -> tuple[Floats, Floats]:
    """What a clock does already, a column each, and how exactly that is known beforehand: its line,
    its bend if it has one, and its steps, 1 in instances after them."""
    bends = model.bend_var[unit]
    after = [a[row] * 1.0 for a, s in zip(model.after, model.steps, strict=True) if s.unit == unit]
    x = np.column_stack([model.fun[row, : None if bends > 0 else 2], *after])
    prior = np.full(x.shape[1], TINY)
    prior[1] = 1 / (DRIFT * np.ptp(model.span) / 2) ** 2
    if bends > 0:
        prior[2 : 2 + BENDS] = 1 / bends
    return x, prior


def _there_and_back(
    told: Told, x: Floats, prior: Floats, at: Floats, place: int
) -> tuple[float, list[int]]:
    """Log likelihood with a step about a moment and the one that goes best with it, and where they
    are: to most ends a clock that is off for a while is so by chance."""
    among, prior = np.arange(len(at)), np.r_[prior, 1 / STEP_NS**2]
    beside = np.column_stack([x, among >= place])
    _, other = _moment(told, beside, prior, at, np.inf)
    _, other = _gain(told, beside, prior, at, other)
    gain, place = _gain(told, np.column_stack([x, among >= other]), prior, at, place)
    return (gain, sorted([place, other])) if place != other else (-np.inf, [place])


def _moment(told: Told, x: Floats, prior: Floats, at: Floats, most: float) -> tuple[float, int]:
    """What a step gains by the score, ends counting as `most` scales off at most, and the instance
    before which it gains most."""
    score, info = told.score(most), told.share * told.info
    inverse = np.linalg.pinv((x.T * info) @ x + np.diag(prior), hermitian=True)
    beyond = _sums_after(info[:, None] * x)
    known = beyond @ inverse
    top = _sums_after(score) - known @ (x.T @ score)
    low = _sums_after(info) - (known * beyond).sum(axis=1)
    gain = np.where(low > 0.5 * np.median(info), top**2 / np.maximum(low, 1e-30) / 2, 0.0)
    gain[1:][np.diff(at) <= 0] = 0.0
    best = int(np.argmax(gain[1:])) + 1
    return float(gain[best]), best


def _sums_after(values: Floats) -> Floats:
    """Sums from each place on."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def _gain(told: Told, x: Floats, prior: Floats, at: Floats, place: int) -> tuple[float, int]:
    """Log likelihood with a step about there, and the instance before which it fits best."""
    prior = np.r_[prior, 1 / STEP_NS**2]
    for _ in range(2):
        step = (np.arange(len(at)) >= place) * 1.0
        value, gain = told.fit(np.column_stack([x, step]), prior)
        best = int(np.argmax(after_each(told, at, told.apart - x @ value[:-1], value[-1]))) + 1
        if best == place:
            break
        place = best
    return gain, place


def after_each(told: Told, at: Floats, rest: Floats, height: float) -> Floats:
    """Log likelihood of a step of a height after each instance but the last, if `rest` is left
    without it."""
    gain = np.cumsum(told.likely(rest) - told.likely(rest - height))[:-1]
    gain[np.diff(at) <= 0] = -np.inf
    return np.asarray(gain)
