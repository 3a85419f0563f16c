"""What ends say of one clock beside what all others say: where it seems to step, whether it bends,
and by how much more likely that makes the ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import BENDS, Step
from traceweave.clocks.start import DRIFT
from traceweave.clocks.system import NU, STEP_NS, TINY, Model
from traceweave.clocks.variances import GRID, ROUNDED, best_variance, price

HUBER = 1.5
"""Scales beyond which an end counts as one that far when a step is looked for."""


@dataclass(frozen=True)
class Pulls:
    """Sums over the ends of each clock in each instance, in this order."""

    unit: Ints
    row: Ints
    weight: Floats
    """What ends weigh as far as they are told from one instance to the next."""
    count: Floats
    """How many ends there are."""
    ahead: Floats
    """The weights times how far ends lie from the common end."""
    score: Floats
    """By how much the likelihood grows if the clock is moved there, no end counting as farther than
    HUBER scales."""
    near: Floats
    """What ends weigh in the fit, those that lie far less."""
    drawn: Floats
    """The same times how far they lie from the common end."""
    of_all: tuple[Floats, ...]
    """Per instance: sums of `weight`, `near` and `drawn` over all clocks."""


def pulls_of(model: Model) -> Pulls:
    """Return the sums over all ends as they lie now."""
    ends, (rest, near) = model.ends, model.weigh()
    scale = model.sigma[ends.cell][ends.row]
    weight = 1 / scale**2
    score = np.clip(rest, -HUBER * scale, HUBER * scale) * weight
    score -= weight * (np.bincount(ends.row, score) / np.bincount(ends.row, weight))[ends.row]
    key, place = np.unique(model.of * ends.rows + ends.row, return_inverse=True)
    share = model.effect[ends.cell][ends.row]
    sums: list[Floats] = [np.zeros(len(key)) for _ in range(6)]
    for total, of in zip(
        sums,
        (weight, np.ones_like(rest), weight * rest, score * share, near, near * rest),
        strict=True,
    ):
        np.add.at(total, place, of)
    unit, row = key // ends.rows, key % ends.rows
    weight, count, ahead, score, near, drawn = sums
    of_all = tuple(
        np.asarray(np.bincount(row, of, ends.rows), np.float64) for of in (weight, near, drawn)
    )
    return Pulls(unit, row, weight, count, ahead, score, near, drawn, of_all)


def told_of(model: Model, pulls: Pulls, unit: int) -> Told:
    """What instances say that a clock shares with others."""
    first, end = np.searchsorted(pulls.unit, (unit, unit + 1)).tolist()
    row = pulls.row[first:end]
    weight, count, ahead, near, drawn = (
        of[first:end] for of in (pulls.weight, pulls.count, pulls.ahead, pulls.near, pulls.drawn)
    )
    total, beside, pulled = (of[row] for of in pulls.of_all)
    others = total - weight
    told = others > ROUNDED * total
    row, weight, others, total = row[told], weight[told], others[told], total[told]
    apart = ahead[told] / weight - (pulled - drawn)[told] / (beside - near)[told]
    share = model.effect[model.ends.cell[row]] * count[told] * others / total
    return Told(row, apart, weight / count[told], share)


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
        value = self.weighed(x, prior, np.ones_like(self.apart))
        for wide in (16.0, 4.0, 2.0, 1.0, 1.0, 1.0):
            rest = self.apart - x @ value
            near = (NU + 1) / (NU + self.info * (rest / wide) ** 2)
            value = self.weighed(x, prior, near)
        told = self.likely(self.apart - x @ value).sum() - (prior * value**2).sum() / 2
        return value, float(told)

    def weighed(self, x: Floats, prior: Floats, near: Floats) -> Floats:
        """Multiples of columns by weighted least squares."""
        weight = self.share * self.info * near
        return np.asarray(
            np.linalg.solve((x.T * weight) @ x + np.diag(prior), x.T @ (weight * self.apart))
        )


def sums_after(values: Floats) -> Floats:
    """Sums from each place on."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def candidates(model: Model) -> list[tuple[float, list[Step]]]:
    """What each clock seems to do: a step, or two, where it comes back and neither may pay alone;
    and what that gains beyond what it costs; best first."""
    pulls = pulls_of(model)
    found = [pair for unit in range(len(model.fixed)) for pair in candidate(model, pulls, unit)]
    return sorted(found, key=lambda pair: -pair[0])


def candidate(model: Model, pulls: Pulls, unit: int) -> list[tuple[float, list[Step]]]:
    """The step of a clock that gains most, by the score of Huber's weights given its own line, bend
    and steps, and the two, as far as they pay; none where few ends tell."""
    told = told_of(model, pulls, unit)
    if len(told.row) < 8:
        return []
    at, least = model.when[told.row], price(model)
    bends = float(model.bend_var[unit])
    mine = _steps_of(model, unit, told.row)
    x = np.column_stack([model.fun[told.row, : None if bends > 0 else 2], *mine])
    prior = np.full(x.shape[1], TINY)
    prior[1] = 1 / (DRIFT * (model.span[1] - model.span[0]) / 2) ** 2
    if bends > 0:
        prior[2 : 2 + BENDS] = 1 / bends
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
    beyond = sums_after(info[:, None] * x)
    known = beyond @ inverse
    top = sums_after(score) - known @ (x.T @ score)
    low = sums_after(info) - (known * beyond).sum(axis=1)
    gain = np.where(low > 0.5 * np.median(info), top**2 / np.maximum(low, 1e-30) / 2, 0.0)
    gain[1:][np.diff(at) <= 0] = 0.0
    best = int(np.argmax(gain[1:])) + 1
    return float(gain[best]), best


def _gain(told: Told, x: Floats, prior: Floats, at: Floats, place: int) -> tuple[float, int]:
    """Log likelihood with a step about there, and the instance before which it fits best."""
    prior = np.r_[prior, 1 / STEP_NS**2]
    for _ in range(2):
        step = (np.arange(len(at)) >= place) * 1.0
        value, gain = told.fit(np.column_stack([x, step]), prior)
        rest = told.apart - x @ value[:-1]
        moved = np.cumsum(told.likely(rest) - told.likely(rest - value[-1]))[:-1]
        moved[np.diff(at) <= 0] = -np.inf
        best = int(np.argmax(moved)) + 1
        if best == place:
            break
        place = best
    return gain, place


def _steps_of(model: Model, unit: int, row: Ints) -> list[Floats]:
    """For each step that a clock has a part in: 1 in instances after it, 0 before."""
    return [
        after[row].astype(float)
        for after, step in zip(model.after, model.steps, strict=True)
        if unit == step.unit
    ]


def bending(model: Model, least: float = 1.0) -> Flags:
    """Which clocks seem to bend, each by itself, by a gain of `least` at least."""
    found = model.bend_var > 0
    pulls = pulls_of(model)
    for unit in range(len(model.fixed)):
        told = told_of(model, pulls, unit)
        row, score, info = told.row, told.score(HUBER), told.info * told.share
        if len(row) < BENDS // 2 or found[unit]:
            continue
        line = np.column_stack([model.fun[row, :2], *_steps_of(model, unit, row)])
        bends = model.fun[row, 2:]
        cross = (bends.T * info) @ line
        base = np.linalg.pinv((line.T * info) @ line, hermitian=True)
        free = (bends.T * info) @ bends - cross @ base @ cross.T
        right = -(bends.T @ score - cross @ (base @ (line.T @ score)))
        gain, _ = best_variance(free, right, np.ones(BENDS), GRID)
        found[unit] = gain > least
    return found
