"""Which clocks bend and step: models grow as long as that makes their ends more likely, and lose
what does not pay."""

from __future__ import annotations

from itertools import chain

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from traceweave.arrays import Floats, Ints
from traceweave.clocks.basis import BENDS, Step
from traceweave.clocks.candidates import (
    Pulls,
    bending,
    candidates,
    pulls_of,
    told_of,
)
from traceweave.clocks.start import SAME_NS
from traceweave.clocks.system import TINY, Model
from traceweave.clocks.variances import STEP, learn_bends, price, worth

LARGE = 2_000
"""Unknowns beyond which only clocks may bend that seem to by themselves."""
MOST_STEPS = 6
"""Rounds of looking for steps, in each of which every clock may get one."""
SURE = 4.0
"""Steps that gain so many times what they cost are not tried without."""
MOST_SHARED = 8
"""Clocks that are told apart of those that seem to step at once."""
UNSURE = 3.0
"""Log likelihood by which a moment is less likely than the best, and may yet be that of a step: one
in twenty."""


def bend(model: Model) -> None:
    """Let clocks bend that seem to, keep what pays."""
    bent = np.full(len(model.fixed), True)
    if len(model.kind) + BENDS * len(bent) > LARGE:
        bent = bending(model, price(model) if model.pooled else 1.0)
    if not bent.any():
        return
    model.bend_var = np.where(bent, np.where(model.bend_var > 0, model.bend_var, 1e4**2), 0.0)
    model.prepare()
    model.settle(12)
    learn_bends(model, 2)
    learn_bends(model, 1, prune=True)


def grown(model: Model) -> Model:
    """Return the model with bends and steps that make its ends likely: a step of each clock first,
    so that no bend is taken for it, then bends, then more steps."""
    if not bending(model, price(model) / 2).any() and not candidates(model):
        return model
    one = model.copied()
    one.uneven = True
    one.settle(8)
    for way in (add_step, bend, add_steps):
        way(one)
        one = without_idle(one)
        one.settle(12)
        place_steps(one)
    return split(one)


def add_step(model: Model) -> None:
    """Add at most a step of each clock: more of them stand for a bend."""
    add_steps(model, 1)


def add_steps(model: Model, rounds: int = MOST_STEPS) -> None:
    """Add steps while they pay: in each round that of every clock that seems to step, or the two of
    one that comes back."""
    for _ in range(rounds):
        found = [steps for _, steps in candidates(model)]
        if not found:
            return
        once = [steps for steps in found if len(steps) == 1]
        back = [steps for steps in found if len(steps) > 1][:1]
        before, tried = model.evidence(), []
        for some in filter(None, (once, back)):
            one = model.copied()
            set_steps(one, [*one.steps, *chain.from_iterable(some)])
            one.settle(12)
            learn_bends(one, 1)
            place_steps(one)
            cost = price(model) * (len(one.steps) - len(model.steps))
            tried.append((one.evidence() - before - cost, one))
        gain, best = max(tried, key=lambda pair: pair[0])
        if gain < 0:
            return
        model.__dict__.update(best.__dict__)


def set_steps(model: Model, steps: list[Step]) -> None:
    """Give clocks these steps; what stays keeps its height."""
    known = dict(zip(model.steps, model.height, strict=True))
    model.steps = steps
    model.height = np.array([known.get(step, 0.0) for step in steps])
    model.prepare()


def without_idle(model: Model) -> Model:
    """Return the model without steps that do not pay, the least one first: first by what ends say
    with the weights they have, then, of the least clear one, by fitting again without it."""
    while model.steps:
        kept, least = _clear(model), price(model)
        if len(kept) < len(model.steps):
            set_steps(model, [step for step, _ in kept])
            model.settle(8)
            learn_bends(model, 1)
            continue
        step, gain = min(kept, key=lambda pair: pair[1])
        if gain > SURE * least:
            break
        one = model.copied()
        set_steps(one, [other for other in model.steps if other is not step])
        one.settle(8)
        learn_bends(one, 1)
        if model.evidence() - one.evidence() > least:
            break
        model = one
    return model


def _clear(model: Model) -> list[tuple[Step, float]]:
    """The steps that gain what they cost, and how much that is, the least one left out first."""
    place = np.flatnonzero(model.kind == STEP)
    left = np.arange(len(place))
    factor = cho_factor(model.hess + np.diag(model.prior + TINY))
    cov = cho_solve(factor, np.eye(len(model.prior))[:, place])
    mean = cov.T @ (model.right + model.prior * model.mean)
    cov, own = cov[place], model.prior[place]
    gains = np.zeros(0)
    while len(left):
        spread = np.diag(cov)
        told = np.maximum(1 / spread - own, 0.0)
        gains = 0.5 * (mean / spread) ** 2 / (told + own) - 0.5 * np.log1p(told / own)
        worst = int(gains.argmin())
        if gains[worst] >= price(model):
            break
        known, kept = cov[worst] / spread[worst], np.arange(len(left)) != worst
        mean = (mean - known * mean[worst])[kept]
        cov = (cov - known[:, None] * cov[worst])[np.ix_(kept, kept)]
        own, left = own[kept], left[kept]
    return [(model.steps[j], float(gain)) for j, gain in zip(left, gains, strict=False)]


def place_steps(model: Model, rounds: int = 4) -> None:
    """Move steps to where they make ends most likely, given their heights and all else: a step was
    placed when others that lie beside it were not known yet."""
    for _ in range(rounds):
        pulls = pulls_of(model)
        places = [_place(model, pulls, number) for number in range(len(model.steps))]
        if places == model.steps:
            return
        heights = model.height
        set_steps(model, places)
        model.height = heights
        model.settle(8)


def _place(model: Model, pulls: Pulls, number: int) -> Step:
    step = model.steps[number]
    at, gain = _places(model, pulls, number)
    if not len(gain):
        return step
    now, best = int(np.searchsorted(at, step.at)) - 1, int(np.argmax(gain))
    if not 0 <= now < len(gain) or gain[best] < gain[now] + 1:
        return step
    return Step(step.unit, float(at[best]), float(at[best + 1]))


def _places(model: Model, pulls: Pulls, number: int) -> tuple[Floats, Floats]:
    """Instances that tell when a step was, and the log likelihood of its being after each, but the
    last, all else being as it is."""
    told = told_of(model, pulls, model.steps[number].unit)
    height, after = model.height[number], model.after[number][told.row]
    before = told.apart - height * after
    gain = np.cumsum(told.likely(before) - told.likely(before + height))[:-1]
    at = model.when[told.row]
    gain[np.diff(at) <= 0] = -np.inf
    return at, gain


def spans(model: Model) -> list[tuple[float, float]]:
    """Return of each step since when and until when it may have been."""
    found, pulls = [], pulls_of(model)
    for number, step in enumerate(model.steps):
        at, gain = _places(model, pulls, number)
        likely = np.flatnonzero(gain > gain.max(initial=-np.inf) - UNSURE)
        low, high = (at[likely[0]], at[likely[-1] + 1]) if len(likely) else (np.inf, -np.inf)
        found.append((min(float(low), step.since), max(float(high), step.until)))
    return found


def split(model: Model) -> Model:
    """Return the model in which, of clocks that step at once, those that go equally far stay and
    all others step, each at a moment of its own: two that lie near each other pass for one."""
    for step in model.steps:
        some, level, height = _at_once(model, step)
        for still in range(len(height)):
            moved = np.flatnonzero(level != still)
            if len(moved) > MOST_SHARED:
                continue
            one = _instead(model, some, moved, height[level[moved]] - height[still])
            if one is None:
                break
            one = without_idle(one)
            if worth(one) > worth(model) + UNSURE:
                return split(one)
    return model


def _at_once(model: Model, step: Step) -> tuple[list[Step], Ints, Floats]:
    """The steps that may be at one moment with this one; which clocks go equally far then, a number
    each, and how far those of each number do."""
    some = [s for s in model.steps if s.since < step.until and s.until > step.since]
    height = np.zeros(len(model.fixed))
    for s, by in zip(model.steps, model.height, strict=True):
        height[s.unit] += by * (s in some)
    order = np.argsort(height)
    level = np.empty(len(order), np.int64)
    level[order] = np.r_[0, np.cumsum(np.diff(height[order]) > SAME_NS)]
    return some, level, np.bincount(level, height) / np.bincount(level)


def _instead(model: Model, some: list[Step], moved: Ints, heights: Floats) -> Model | None:
    """The model with steps of these clocks in place of some others, moved to where they fit."""
    since, until = max(s.since for s in some), min(s.until for s in some)
    if since >= until:
        return None
    one = model.copied()
    kept = [(s, by) for s, by in zip(model.steps, model.height, strict=True) if s not in some]
    set_steps(one, [*[s for s, _ in kept], *[Step(int(u), since, until) for u in moved]])
    one.height = np.r_[[by for _, by in kept], heights]
    one.settle(8)
    place_steps(one)
    return one
