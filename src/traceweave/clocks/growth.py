"""Which clocks bend and step, and how large variances are: by how likely that makes the ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import BENDS, Step
from traceweave.clocks.system import GPU_NS, LAG, TINY, WAVE, Model

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
            gains = _likely(model, prior, places)
        while prune and len(bent) and gains.min() < price(model):
            worst = int(gains.argmin())
            prior[places[worst]] = 1e30
            model.bend_var[bent[worst]] = 0.0
            bent, places = np.delete(bent, worst), np.delete(places, worst, axis=0)
            gains = _likely(model, prior, places)
        for unit, place in zip(bent, places, strict=True):
            model.bend_var[unit] = 1 / prior[place[0]]
        model.prepare()
        model.settle(6)


def _likely(model: Model, prior: Floats, places: Ints) -> Floats:
    """Set each bend's precision to the most likely one; return what each gains."""
    cov = np.linalg.inv(model.hess + np.diag(prior + TINY))
    mean = cov @ (model.right + model.prior * model.mean)
    gains = np.zeros(len(places))
    for number, mine in enumerate(places):
        inverse = np.linalg.inv(cov[np.ix_(mine, mine)])
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


def grown(model: Model) -> Model:
    """Return the model with the bends and steps that make its ends most likely: what one has
    explained the other need not, so both orders are tried."""
    least = price(model)
    if not _bent(model, least / 2).any() and all(gain < least for gain, _ in candidates(model)):
        model.uneven = True
        model.settle()
        return model
    tried: list[tuple[float, Model]] = []
    ways = (bend, add_steps), (add_steps, bend, add_steps)
    for uneven, order in product((False, True), ways):
        one = model.copied()
        one.uneven = uneven
        one.settle(8)
        for way in order:
            way(one)
        one = without_idle(one)
        one.uneven = True
        one.settle(12)
        count = len(one.steps) + int((one.bend_var > 0).sum())
        tried.append((one.evidence() - price(one) * count, one))
    return max(tried, key=lambda pair: pair[0])[1]


def add_steps(model: Model) -> None:
    """Add steps while they pay: in each round those of several choices that pay most."""
    for _ in range(MOST_STEPS):
        least = price(model)
        found = [pair for pair in candidates(model) if pair[0] >= least]
        if not found:
            return
        choices = (found, _alike(found), _apart(found), found[:1], _back(model, found[0]))
        before, tried = model.evidence(), []
        for some in {tuple(step for _, step in choice): None for choice in choices}:
            one = model.copied()
            set_steps(one, [*one.steps, *some])
            one.settle(12)
            learn_bends(one, 1)
            tried.append((one.evidence() - before - least * len(some), one))
        gain, best = max(tried, key=lambda pair: pair[0])
        if gain < 0:
            return
        model.__dict__.update(best.__dict__)


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
    return [best, *[(gain, s) for gain, s in candidates(one) if s.unit == best[1].unit]]


def _alike(found: list[tuple[float, Step]]) -> list[tuple[float, Step]]:
    """The best step and all that others seem to do at its time, over the stretch of all of them:
    ranks of a host that nobody named step together, and what they share does not tell when."""
    best = found[0][1]
    some = [(gain, s) for gain, s in found if s.since <= best.until and s.until >= best.since]
    since, until = min(s.since for _, s in some), max(s.until for _, s in some)
    return [(gain, Step(s.unit, since, until)) for gain, s in some]


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


def candidates(model: Model) -> list[tuple[float, Step]]:
    """The step of each clock that gains most, by the score of Huber's weights given the clock's own
    line, bend and steps; best first."""
    found = [_candidate(model, unit, *of) for unit, of in enumerate(_scores(model))]
    return sorted((pair for pair in found if pair is not None), key=lambda pair: -pair[0])


def _scores(model: Model) -> Iterator[tuple[Ints, Floats, Floats]]:
    """Per clock: instances that it shares with others, by how much the likelihood grows if it is
    moved there alone, and how much ends say of that."""
    rest, _ = model.weigh()
    ends, units = model.ends, len(model.fixed)
    scale = model.briefly(rest)[ends.cell][ends.row]
    info = model.effect[ends.cell][ends.row] / scale**2
    score = np.clip(rest, -HUBER * scale, HUBER * scale) * info
    total = np.bincount(ends.row, info)
    score -= info * (np.bincount(ends.row, score) / total)[ends.row]
    key, place = np.unique(model.of * ends.rows + ends.row, return_inverse=True)
    scores, infos = np.bincount(place, score), np.bincount(place, info)
    row = key % ends.rows
    infos = infos * (total[row] - infos) / total[row]
    edges = np.searchsorted(key // ends.rows, np.arange(units + 1))
    for low, high in pairwise(edges):
        told = low + np.flatnonzero(infos[low:high] > 1e-9 * infos.max())
        yield row[told], scores[told], infos[told]


def _bent(model: Model, least: float = 1.0) -> Flags:
    """Which clocks seem to bend, each by itself, by a gain of `least` at least."""
    found = model.bend_var > 0
    for unit, (row, score, info) in enumerate(_scores(model)):
        if len(row) < BENDS // 2 or found[unit]:
            continue
        steps = [
            after[row].astype(float)
            for after, step in zip(model.after, model.steps, strict=True)
            if step.unit == unit
        ]
        line = np.column_stack([model.fun[row, :2], *steps])
        bends = model.fun[row, 2:]
        cross = (bends.T * info) @ line
        base = np.linalg.pinv((line.T * info) @ line, hermitian=True)
        told = (bends.T * info) @ bends - cross @ base @ cross.T
        right = -(bends.T @ score - cross @ (base @ (line.T @ score)))
        gain, _ = best_variance(told, right, np.ones(BENDS), GRID)
        found[unit] = gain > least
    return found


def _candidate(
    model: Model, unit: int, told: Ints, score: Floats, info: Floats
) -> tuple[float, Step] | None:
    if len(told) < 8:
        return None
    at = model.when[told]
    used = slice(None) if model.bend_var[unit] > 0 else slice(2)
    mine = [
        after[told].astype(float)
        for after, s in zip(model.after, model.steps, strict=True)
        if s.unit == unit
    ]
    x = np.column_stack([model.fun[told, used], *mine])
    prior = np.full(x.shape[1], TINY)
    if model.bend_var[unit] > 0:
        prior[2 : 2 + BENDS] = 1 / model.bend_var[unit]
    inverse = np.linalg.pinv((x.T * info) @ x + np.diag(prior), hermitian=True)

    def after(values: Floats) -> Floats:
        return np.cumsum(values[::-1], axis=0)[::-1]

    beyond = after(info[:, None] * x)
    known = beyond @ inverse
    top = after(score) - known @ (x.T @ score)
    low = after(info) - (known * beyond).sum(axis=1)
    gain = np.where(low > 0.5 * np.median(info), top**2 / np.maximum(low, 1e-30) / 2, 0.0)[1:]
    gain[np.diff(at) <= 0] = 0.0
    best = int(np.argmax(gain))
    return float(gain[best]), Step(unit, float(at[best]), float(at[best + 1]))
