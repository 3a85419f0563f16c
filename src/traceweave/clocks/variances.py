"""How large the variances of clocks are: what makes the ends most likely."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import BENDS
from traceweave.clocks.system import GPU_NS, LAG, TINY, WAVE, Model, inverse

PRICE = 2.0
"""What has one more coefficient has to gain PRICE * log(instances) in log likelihood; 1 (moment and
height, Schwarz 1978) takes noise to be independent."""
GRID = np.logspace(2, 7.5, 23) ** 2
"""Variances to choose from, ns^2."""
SHARE = np.logspace(-4, -1, 13) ** 2
"""Variances of lags to choose from, as shares of transfers."""
ROUNDED = 1e-10
"""What ends say of a direction beside what they say of the clearest, more than rounding."""


LINE, BEND, STEP, GPU, LAGS, WAVES = range(6)


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


def worth(model: Model) -> float:
    """How likely the ends are, less what steps and bends cost."""
    count = len(model.steps) + int((model.bend_var > 0).sum())
    return model.evidence() - price(model) * count


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
        for kind, name, grid in (
            (GPU, "gpu_var", GRID),
            (LAGS, "lag_var", SHARE),
            (WAVES, "wave_var", SHARE),
        ):
            mine = np.flatnonzero(model.kind == kind)
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
        cov, mean = _posterior(model, prior)
        for _ in range(3):
            gains, cov, mean = _likely(cov, mean, prior, places)
        paying = np.full(len(bent), True)
        if prune:
            paying = _paying(price(model), cov, mean, prior, places, gains)
        model.bend_var[bent] = np.where(paying, 1 / prior[places[:, 0]], 0.0)
        model.prepare()
        model.settle(6)


def _paying(
    least: float, cov: Floats, mean: Floats, prior: Floats, places: Ints, gains: Floats
) -> Flags:
    """Which bends gain `least` once those that do not are given up, one after the other."""
    left = np.arange(len(places))
    while len(left) and gains.min() < least:
        worst = int(gains.argmin())
        mine = places[left[worst]]
        known = cho_solve(cho_factor(cov[np.ix_(mine, mine)]), np.c_[cov[mine], mean[mine]])
        mean = mean - cov[:, mine] @ known[:, -1]
        cov = cov - cov[:, mine] @ known[:, :-1]
        left = np.delete(left, worst)
        gains = _likely(cov, mean, prior.copy(), places[left])[0]
    return np.isin(np.arange(len(places)), left)


def _posterior(model: Model, prior: Floats) -> tuple[Floats, Floats]:
    """Covariance and mean of all unknowns, given their precisions."""
    cov = inverse(model.hess + np.diag(prior + TINY))
    return cov, cov @ (model.right + model.prior * model.mean)


def _likely(
    cov: Floats, mean: Floats, prior: Floats, places: Ints
) -> tuple[Floats, Floats, Floats]:
    """Set each bend's precision to the most likely one, those before it being set; return what each
    gains, and `cov` and `mean` then. Two that stand for each other, set at once, would both be
    given up."""
    gains = np.zeros(len(places))
    for number, mine in enumerate(places):
        own = cov[np.ix_(mine, mine)]
        sure = np.asarray(np.linalg.inv(own), np.float64)
        told = sure - np.diag(prior[mine])
        grid = GRID * prior[mine[0]]
        gains[number], by = best_variance(told, sure @ mean[mine], prior[mine], grid)
        more = prior[mine] / by - prior[mine]
        if more.any():  # Woodbury's identity
            known = np.linalg.solve(np.diag(1 / more) + own, np.c_[cov[mine], mean[mine]])
            cov, mean = cov - cov[:, mine] @ known[:, :-1], mean - cov[:, mine] @ known[:, -1]
        prior[mine] += more
    return gains, cov, mean
