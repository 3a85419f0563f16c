"""Which clocks bend and step, and how large variances are: by how likely that makes the ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import BENDS, Step
from traceweave.clocks.start import DRIFT, SAME_NS
from traceweave.clocks.system import GPU_NS, LAG, NU, STEP_NS, TABLE, TINY, WAVE, Model

PRICE = 2.0
"""What has one more coefficient has to gain PRICE * log(instances) in log likelihood; 1 (moment and
height, Schwarz 1978) takes noise to be independent."""
GRID = np.logspace(2, 7.5, 23) ** 2
"""Variances to choose from, ns^2."""
SHARE = np.logspace(-4, -1, 13) ** 2
"""Variances of lags to choose from, as shares of transfers."""
ROUNDED = 1e-10
"""What ends say of a direction beside what they say of the clearest, more than rounding."""
LARGE = 2_000
"""Unknowns beyond which only clocks may bend that seem to by themselves."""
HUBER = 1.5
"""Scales beyond which an end counts as one that far when a step is looked for."""
SURE = 4.0
"""Steps that gain so many times what they cost are not tried without."""
MOST_STEPS = 6
"""Rounds of looking for steps, in each of which every clock may get one."""
UNSURE = 3.0
"""Log likelihood by which a moment is less likely than the best, and may yet be that of a step: one
in twenty."""
MOST_SHARED = 8
"""Sets of clocks that seem to step together which are looked at in a round, and clocks that are
told apart of those that do."""
LINE, BEND, STEP, GPU, LAGS, MATE, WAVES = range(7)


def best_variance(told: Floats, score: Floats, prior: Floats, grid: Floats) -> tuple[float, float]:
    """By which factor of the `grid` the variances 1 / `prior` of some coefficients are the most
    likely, and what that gains over variances of 0: `told` is what ends say of them, all others
    being free within theirs, and `score` that times where they say these are."""
    scale = 1 / np.sqrt(prior)
    value, vector = np.linalg.eigh(told * scale * scale[:, None])
    sure = value > ROUNDED * value.max()
    square, value = (vector.T @ (scale * score))[sure] ** 2, value[sure]
    gains = 0.5 * (square / (value + 1 / grid[:, None])).sum(axis=1)
    gains -= 0.5 * np.log1p(value * grid[:, None]).sum(axis=1)
    best = int(np.argmax(gains))
    return float(gains[best]), float(grid[best])


def _others_free(model: Model, mine: Ints) -> tuple[Floats, Floats]:
    """What ends say of some unknowns, all others being free within theirs."""
    rest = np.setdiff1d(np.arange(len(model.kind)), mine)
    right = model.right + model.prior * model.mean
    cross = model.hess[np.ix_(mine, rest)]
    if not len(rest):
        return model.hess[np.ix_(mine, mine)], right[mine]
    factor = cho_factor(model.hess[np.ix_(rest, rest)] + np.diag(model.prior[rest] + TINY))
    told = model.hess[np.ix_(mine, mine)] - cross @ cho_solve(factor, cross.T)
    return (told + told.T) / 2, right[mine] - cross @ cho_solve(factor, right[rest])


def price(model: Model) -> float:
    """Return what a step or a bend has to gain."""
    return float(PRICE * np.log(model.ends.rows + 3))


def learn_constants(model: Model, rounds: int = 4) -> None:
    """Variances of GPUs' constants and of lags, in turns with the fit."""
    if model.pooled:
        return
    model.gpu_var = model.gpu_var or GPU_NS**2
    model.lag_var = model.lag_var or LAG**2
    model.wave_var = model.wave_var or WAVE**2
    model.prepare()
    model.settle()
    for _ in range(rounds):
        old = model.gpu_var, model.lag_var, model.wave_var
        for kinds, name, grid in (
            ((GPU,), "gpu_var", GRID),
            ((LAGS, MATE), "lag_var", SHARE),
            ((WAVES,), "wave_var", SHARE),
        ):
            mine = np.flatnonzero(np.isin(model.kind, kinds))
            if len(mine):
                now = getattr(model, name)
                gain, by = best_variance(*_others_free(model, mine), model.prior[mine], grid / now)
                setattr(model, name, now * by if gain > 1 else 0.0)
        model.prepare()
        model.settle()
        if old == (model.gpu_var, model.lag_var, model.wave_var):
            return


def learn_bends(model: Model, rounds: int = 2, prune: bool = False) -> None:
    """Variances of bends, in turns with the fit; if `prune`, those that do not pay are given up,
    the least one first, as one may stand for another."""
    for _ in range(rounds):
        if not model.bend_var.any():
            return
        bent = np.flatnonzero(model.bend_var > 0)
        places = np.flatnonzero(model.kind == BEND).reshape(len(bent), BENDS)
        prior = model.prior.copy()
        for _ in range(3):
            gains = _likely(*_posterior(model, prior), prior, places)
        paying = _paying(model, prior, places, gains) if prune else np.full(len(bent), True)
        model.bend_var[bent] = np.where(paying, 1 / prior[places[:, 0]], 0.0)
        model.prepare()
        model.settle(6)


def _paying(model: Model, prior: Floats, places: Ints, gains: Floats) -> Flags:
    """Which bends gain what they cost once those that do not are given up, one after the other."""
    left = np.arange(len(places))
    cov, mean = _posterior(model, prior)
    while len(left) and gains.min() < price(model):
        worst = int(gains.argmin())
        mine = places[left[worst]]
        known = cho_solve(cho_factor(cov[np.ix_(mine, mine)]), np.c_[cov[mine], mean[mine]])
        mean = mean - cov[:, mine] @ known[:, -1]
        cov = cov - cov[:, mine] @ known[:, :-1]
        left = np.delete(left, worst)
        gains = _likely(cov, mean, prior.copy(), places[left])
    return np.isin(np.arange(len(places)), left)


def _posterior(model: Model, prior: Floats) -> tuple[Floats, Floats]:
    """Covariance and mean of all unknowns, given their precisions."""
    cov = np.asarray(np.linalg.inv(model.hess + np.diag(prior + TINY)))
    return cov, cov @ (model.right + model.prior * model.mean)


def _likely(cov: Floats, mean: Floats, prior: Floats, places: Ints) -> Floats:
    """Set each bend's precision to the most likely one; return what each gains."""
    gains = np.zeros(len(places))
    for number, mine in enumerate(places):
        inverse = np.asarray(np.linalg.inv(cov[np.ix_(mine, mine)]), np.float64)
        told = inverse - np.diag(prior[mine])
        grid = GRID * prior[mine[0]]
        gains[number], by = best_variance(told, inverse @ mean[mine], prior[mine], grid)
        prior[mine] = prior[mine] / by
    return gains


def bend(model: Model) -> None:
    """Let clocks bend that seem to, keep what pays."""
    bent = np.full(len(model.fixed), True)
    if len(model.kind) + BENDS * len(bent) > LARGE:
        bent = _bent(model, price(model) if model.pooled else 1.0)
    if not bent.any():
        return
    model.bend_var = np.where(bent, np.where(model.bend_var > 0, model.bend_var, 1e4**2), 0.0)
    model.prepare()
    model.settle(12)
    learn_bends(model, 2)
    learn_bends(model, 1, prune=True)


def grown(model: Model) -> list[Model]:
    """Return models with bends and steps that make its ends likely: what one has explained the
    other need not, so both orders are tried, and the best is revised."""
    least = price(model)
    if not _bent(model, least / 2).any() and all(gain < least for gain, _ in candidates(model)):
        return [model]
    tried: list[Model] = []
    for order in ((bend, add_steps), (add_step, bend, add_steps)):
        one = model.copied()
        one.uneven = True
        one.settle(8)
        for way in order:
            way(one)
            one = simpler(without_idle(one))
            one.settle(12)
            place_steps(one)
            tried.append(one.copied())
    best = max(tried, key=worth)
    return [best, revised(best)]


def worth(model: Model) -> float:
    """How likely the ends are, less what steps and bends cost."""
    count = len(model.steps) + int((model.bend_var > 0).sum())
    return model.evidence() - price(model) * count


def revised(model: Model) -> Model:
    """Return the model after every clock that steps was looked at once more, with and without a
    bend, all others being known: it may have stepped alone, at another time than those beside it,
    or not at all."""
    for unit in range(len(model.fixed)):
        if all(unit not in step.units for step in model.steps):
            continue
        for bends in (False, True):
            one = model.copied()
            one.bend_var[unit] = (one.bend_var[unit] or 1e4**2) * bends
            _without(one, unit)
            one.settle(6)
            for _ in range(MOST_STEPS):
                found = _candidate(one, (unit,), _told(one, _pulls(one), (unit,)))
                if found is None or found[0] < price(one):
                    break
                set_steps(one, [*one.steps, found[1]])
                one.settle(6)
                learn_bends(one, 1)
            place_steps(one)
            if worth(one) > worth(model):
                model = one
    return without_idle(split(model))


def _without(model: Model, unit: int) -> None:
    """Let a clock step no more, those that did beside it yet."""
    height = model.height
    kept = [j for j, step in enumerate(model.steps) if step.units != (unit,)]
    left = [
        replace(step, units=tuple(other for other in step.units if other != unit))
        for step in (model.steps[j] for j in kept)
    ]
    set_steps(model, left)
    model.height = height[kept]


def add_step(model: Model) -> None:
    """Add at most a step of each clock: more of them stand for a bend."""
    add_steps(model, 1)


def add_steps(model: Model, rounds: int = MOST_STEPS) -> None:
    """Add steps while they pay: in each round those of several choices that pay most."""
    for _ in range(rounds):
        least = price(model)
        found = [pair for pair in candidates(model) if pair[0] >= least]
        if not found:
            return
        single = [pair for pair in found if len(pair[1].units) == 1]
        choices = (single, _alike(single), _apart(single), _apart(found), _back(model, found[0]))
        before, tried = model.evidence(), []
        for some in {tuple(step for _, step in choice): None for choice in choices if choice}:
            one = model.copied()
            set_steps(one, [*one.steps, *some])
            one.settle(12)
            learn_bends(one, 1)
            place_steps(one)
            tried.append((one.evidence() - before - least * len(some), one))
        gain, best = max(tried, key=lambda pair: pair[0])
        if gain < 0:
            return
        model.__dict__.update(simpler(best).__dict__)


def _apart(found: list[tuple[float, Step]]) -> list[tuple[float, Step]]:
    """The best steps, at most one at a time: beside it, what others seem to do is its shadow."""
    kept: list[tuple[float, Step]] = []
    for gain, step in found:
        if all(step.since > other.until or step.until < other.since for _, other in kept):
            kept.append((gain, step))
    return kept


def _back(model: Model, best: tuple[float, Step]) -> list[tuple[float, Step]]:
    """The best step and the one with which the same clock comes back: alone, neither may pay."""
    one = model.copied()
    set_steps(one, [*one.steps, best[1]])
    found = _candidate(one, best[1].units, _told(one, _pulls(one), best[1].units))
    return [best] if found is None else [best, found]


def _alike(found: list[tuple[float, Step]]) -> list[tuple[float, Step]]:
    """The best step and all that others seem to do at its time, over the stretch of all of them:
    ranks of a host that nobody named step together, and what they share does not tell when."""
    if not found:
        return []
    best = found[0][1]
    some = [(gain, s) for gain, s in found if s.since <= best.until and s.until >= best.since]
    since, until = min(s.since for _, s in some), max(s.until for _, s in some)
    return [(gain, Step(s.units, since, until)) for gain, s in some]


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
    prior, first = model.prior.copy(), int((model.kind < STEP).sum())
    left = list(range(len(model.steps)))
    gains = np.zeros(0)
    while left:
        cov = np.linalg.inv(model.hess + np.diag(prior + TINY))
        place = first + np.array(left)
        mean = (cov @ (model.right + model.prior * model.mean))[place]
        spread, own = np.diag(cov)[place], prior[place]
        told = np.maximum(1 / spread - own, 0.0)
        gains = 0.5 * (mean / spread) ** 2 / (told + own) - 0.5 * np.log1p(told / own)
        worst = int(gains.argmin())
        if gains[worst] >= price(model):
            break
        prior[place[worst]] = 1e30
        del left[worst]
    return [(model.steps[j], float(gain)) for j, gain in zip(left, gains, strict=False)]


def place_steps(model: Model, rounds: int = 4) -> None:
    """Move steps to where they make ends most likely, given their heights and all else: a step was
    placed when others that lie beside it were not known yet."""
    for _ in range(rounds):
        pulls = _pulls(model)
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
    return Step(step.units, float(at[best]), float(at[best + 1]))


def _places(model: Model, pulls: Pulls, number: int) -> tuple[Floats, Floats]:
    """Instances that tell when a step was, and the log likelihood of its being after each, but the
    last, all else being as it is."""
    told = _told(model, pulls, model.steps[number].units)
    height, after = model.height[number], model.after[number][told.row]
    before = told.apart - height * after
    gain = np.cumsum(told.likely(before) - told.likely(before + height))[:-1]
    at = model.when[told.row]
    gain[np.diff(at) <= 0] = -np.inf
    return at, gain


def spans(model: Model) -> list[tuple[float, float]]:
    """Return of each step since when and until when it may have been."""
    found, pulls = [], _pulls(model)
    for number, step in enumerate(model.steps):
        at, gain = _places(model, pulls, number)
        likely = np.flatnonzero(gain > gain.max(initial=-np.inf) - UNSURE)
        low, high = (at[likely[0]], at[likely[-1] + 1]) if len(likely) else (np.inf, -np.inf)
        found.append((min(float(low), step.since), max(float(high), step.until)))
    return found


def simpler(model: Model) -> Model:
    """Return the model with the fewest steps that say the same where several clocks step at once:
    what all but one do is a step of that one, whose moment may be another."""
    for step in model.steps:
        some, level, height = _at_once(model, step)
        if len(some) < 2 or len(height) > len(some):
            continue
        still = int(np.bincount(level).argmax())
        units = [np.flatnonzero(level == k) for k in range(len(height)) if k != still]
        one = _instead(model, some, units, height[np.arange(len(height)) != still] - height[still])
        if one is not None and worth(one) > worth(model):
            return simpler(one)
    return model


def split(model: Model) -> Model:
    """Return the model with a step of its own for each clock that steps at once with others, if
    their moments turn out to be others: two that lie near each other pass for one."""
    for step in model.steps:
        some, level, height = _at_once(model, step)
        for still in range(len(height)):
            moved = np.flatnonzero(level != still)
            if len(moved) > MOST_SHARED:
                continue
            heights = height[level[moved]] - height[still]
            one = _instead(model, some, list(moved[:, None]), heights)
            if one is None:
                break
            one = without_idle(simpler(one))
            if worth(one) > worth(model) + UNSURE:
                return split(one)
    return model


def _at_once(model: Model, step: Step) -> tuple[list[Step], Ints, Floats]:
    """The steps that may be at one moment with this one; which clocks go equally far then, a number
    each, and how far those of each number do."""
    some = [s for s in model.steps if s.since < step.until and s.until > step.since]
    height = np.zeros(len(model.fixed))
    for s, by in zip(model.steps, model.height, strict=True):
        height[list(s.units)] += by * (s in some)
    order = np.argsort(height)
    level = np.empty(len(order), np.int64)
    level[order] = np.r_[0, np.cumsum(np.diff(height[order]) > SAME_NS)]
    return some, level, np.bincount(level, height) / np.bincount(level)


def _instead(model: Model, some: list[Step], units: list[Ints], heights: Floats) -> Model | None:
    """The model with steps of these clocks in place of some others, moved to where they fit."""
    since, until = max(s.since for s in some), min(s.until for s in some)
    if since >= until:
        return None
    one = model.copied()
    kept = [(s, by) for s, by in zip(model.steps, model.height, strict=True) if s not in some]
    set_steps(one, [*[s for s, _ in kept], *[Step(tuple(u.tolist()), since, until) for u in units]])
    one.height = np.r_[[by for _, by in kept], heights]
    one.settle(8)
    place_steps(one)
    return one


def candidates(model: Model) -> list[tuple[float, Step]]:
    """The step of each clock, and of clocks that seem to step together, that gains most, by the
    score of Huber's weights given their own line, bend and steps; best first."""
    pulls = _pulls(model)
    several = [(unit,) for unit in range(len(model.fixed))] + _together(model, pulls)
    found = [_candidate(model, units, _told(model, pulls, units)) for units in several]
    return sorted((pair for pair in found if pair is not None), key=lambda pair: -pair[0])


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


def _pulls(model: Model) -> Pulls:
    ends, (rest, near) = model.ends, model.weigh()
    scale = model.briefly(rest)[ends.cell][ends.row]
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


def _told(model: Model, pulls: Pulls, units: tuple[int, ...]) -> Told:
    """What instances say that some clocks share with others."""
    low, high = (np.searchsorted(pulls.unit, units, side) for side in ("left", "right"))
    mine = np.concatenate([np.arange(a, b) for a, b in zip(low, high, strict=True)])
    row, place = np.unique(pulls.row[mine], return_inverse=True)
    weight, count, ahead, near, drawn = (
        np.bincount(place, of[mine])
        for of in (pulls.weight, pulls.count, pulls.ahead, pulls.near, pulls.drawn)
    )
    total, beside, pulled = (of[row] for of in pulls.of_all)
    others = total - weight
    told = others > ROUNDED * total
    row, weight, others, total = (of[told] for of in (row, weight, others, total))
    apart = ahead[told] / weight - (pulled - drawn)[told] / (beside - near)[told]
    share = model.effect[model.ends.cell[row]] * count[told] * others / total
    return Told(row, apart, weight / count[told], share)


@dataclass(frozen=True)
class Told:
    """Per instance that some clocks share with others: how far their ends lie after those of the
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

    def alike(self) -> Told:
        """As if all were known as exactly as most are: of many that agree, a few that are known
        better may say something else."""
        return replace(self, info=np.full_like(self.info, np.median(self.info)))

    def fit(self, x: Floats, prior: Floats) -> tuple[Floats, float]:
        """The most likely multiples of columns, and their log likelihood: from all ends alike to
        those that agree."""
        tried = []
        for first in (self, self.alike()):
            value = first.weighed(x, prior, np.ones_like(self.apart))
            for wide in (16.0, 4.0, 2.0, 1.0, 1.0, 1.0):
                rest = self.apart - x @ value
                near = (NU + 1) / (NU + self.info * (rest / wide) ** 2)
                value = self.weighed(x, prior, near)
            told = self.likely(self.apart - x @ value).sum() - (prior * value**2).sum() / 2
            tried.append((float(told), value))
        told, value = max(tried, key=lambda pair: pair[0])
        return value, told

    def weighed(self, x: Floats, prior: Floats, near: Floats) -> Floats:
        """Multiples of columns by weighted least squares."""
        weight = self.share * self.info * near
        return np.asarray(
            np.linalg.solve((x.T * weight) @ x + np.diag(prior), x.T @ (weight * self.apart))
        )


def _together(model: Model, pulls: Pulls) -> list[tuple[int, ...]]:
    """Clocks that seem to step together at some moment: of the steps of all of them there, each
    given the others and what all clocks do, those above and below the widest gain of two groups."""
    size = len(model.bins) * len(model.clock) * len(model.fixed)
    if model.pooled or len(model.fixed) < 4 or size > TABLE:
        return []
    ends, (rest, _) = model.ends, model.weigh()
    weight = (model.effect / model.briefly(rest) ** 2)[ends.cell][ends.row]
    fun, lap = model.flat(), model.sums(weight)[0]
    bins, units = lap.shape[:2]
    of_bin = np.searchsorted(model.bins, pulls.row, "right") - 1
    pull: Floats = np.zeros((bins, units))
    np.add.at(pull, (of_bin, pulls.unit), pulls.score)
    pull = _after(pull)
    moving = len(model.clock) + len(model.steps)
    factor = cho_factor(model.of_clocks(fun, lap) + np.diag(model.prior[:moving] + TINY))
    found: dict[tuple[int, ...], float] = {}
    crossing = model.steps_of_all(fun, lap)
    for cross, own, right in zip(crossing, _after(lap), pull, strict=True):
        told = own - cross.T @ cho_solve(factor, cross)
        height = np.linalg.solve(told + np.eye(units) / STEP_NS**2, right)
        order = np.argsort(height)
        low = told[np.ix_(order, order)].cumsum(axis=0).cumsum(axis=1).diagonal()
        top = np.cumsum(right[order])
        gain = np.where(low > ROUNDED * low.max(), top**2 / np.maximum(low, 1e-30) / 2, 0.0)[:-1]
        cut = int(np.argmax(gain)) + 1
        some = min(order[:cut], order[cut:], key=len)
        key = tuple(sorted(some.tolist()))
        if len(key) > 1:
            found[key] = max(found.get(key, 0.0), float(gain[cut - 1]))
    return sorted(found, key=lambda key: -found[key])[:MOST_SHARED]


def _after(values: Floats) -> Floats:
    """Sums from each place on."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])


def _steps_of(model: Model, units: tuple[int, ...], row: Ints) -> list[Floats]:
    """For each step that some clocks have a part in: 1 in instances after it, 0 before."""
    return [
        after[row].astype(float)
        for after, step in zip(model.after, model.steps, strict=True)
        if not set(units).isdisjoint(step.units)
    ]


def _bent(model: Model, least: float = 1.0) -> Flags:
    """Which clocks seem to bend, each by itself, by a gain of `least` at least."""
    found = model.bend_var > 0
    pulls = _pulls(model)
    for unit in range(len(model.fixed)):
        told = _told(model, pulls, (unit,))
        row, score, info = told.row, told.score(HUBER), told.info * told.share
        if len(row) < BENDS // 2 or found[unit]:
            continue
        line = np.column_stack([model.fun[row, :2], *_steps_of(model, (unit,), row)])
        bends = model.fun[row, 2:]
        cross = (bends.T * info) @ line
        base = np.linalg.pinv((line.T * info) @ line, hermitian=True)
        free = (bends.T * info) @ bends - cross @ base @ cross.T
        right = -(bends.T @ score - cross @ (base @ (line.T @ score)))
        gain, _ = best_variance(free, right, np.ones(BENDS), GRID)
        found[unit] = gain > least
    return found


def _candidate(model: Model, units: tuple[int, ...], told: Told) -> tuple[float, Step] | None:
    if len(told.row) < 8:
        return None
    at = model.when[told.row]
    bends = float(model.bend_var[list(units)].max())
    mine = _steps_of(model, units, told.row)
    x = np.column_stack([model.fun[told.row, : None if bends > 0 else 2], *mine])
    prior = np.full(x.shape[1], TINY)
    prior[1] = 1 / (DRIFT * (model.span[1] - model.span[0]) / 2) ** 2
    if bends > 0:
        prior[2 : 2 + BENDS] = 1 / bends
    scored = _moment(told, x, prior, at, HUBER)
    seen = _moment(told.alike(), x, prior, at, np.inf)
    found = [scored]
    if max(scored, seen)[0] >= price(model):  # tails gain no more than squares
        without = max(told.fit(x, prior)[1], float(told.likely(told.apart).sum()))
        for place in {scored[1], seen[1]}:
            gain, place = _gain(told, x, prior, at, place)
            found.append((gain - without, place))
    gain, place = max(found)
    return gain, Step(units, float(at[place - 1]), float(at[place]))


def _moment(told: Told, x: Floats, prior: Floats, at: Floats, most: float) -> tuple[float, int]:
    """What a step gains by the score, ends counting as `most` scales off at most, and the instance
    before which it gains most."""
    score, info = told.score(most), told.share * told.info
    inverse = np.linalg.pinv((x.T * info) @ x + np.diag(prior), hermitian=True)
    beyond = _after(info[:, None] * x)
    known = beyond @ inverse
    top = _after(score) - known @ (x.T @ score)
    low = _after(info) - (known * beyond).sum(axis=1)
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
