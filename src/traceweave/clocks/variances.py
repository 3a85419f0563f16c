"""How large the variances of bends and constants are: what makes the ends most likely."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.model import BEND, GPU, LAG, TINY, VARIANCES, WAVE, Model

PRICE = 2.0
"""What has one more coefficient has to gain PRICE * log(instances) in log likelihood; 1 (moment and
height, Schwarz 1978) takes noise to be independent."""
GRID = np.logspace(2, 7.5, 23) ** 2
"""Variances to choose from, ns^2."""
SHARE = np.logspace(-4, -1, 13) ** 2
"""Variances of lags to choose from, as shares of transfers."""
ROUNDED = 1e-10
"""What ends say of a direction beside what they say of the clearest, more than rounding."""


def price(model: Model) -> float:
    """Return what a step or a bend has to gain."""
    return float(PRICE * np.log(model.ends.rows + 3))


def worth(model: Model) -> float:
    """How likely the ends are, less what steps and bends cost."""
    count = len(model.steps) + int((model.bend_var > 0).sum())
    return model.evidence() - price(model) * count


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


class Posterior:
    """Covariance and mean of all unknowns, given their precisions, as these are changed."""

    def __init__(self, model: Model) -> None:
        self.prior = model.prior.copy()
        self.cov = np.linalg.inv(model.hess + np.diag(self.prior + TINY))
        self.mean = self.cov @ (model.right + self.prior * model.mean)

    def best(self, mine: Ints, grid: Floats) -> tuple[float, float]:
        """What the most likely variance of some unknowns gains over 0, and what it is."""
        sure = np.asarray(np.linalg.inv(self.cov[np.ix_(mine, mine)]), np.float64)
        own = self.prior[mine]
        told = sure - np.diag(own)
        gain, by = best_variance((told + told.T) / 2, sure @ self.mean[mine], own, grid * own[0])
        return gain, by / float(own[0])

    def change(self, mine: Ints, variance: float) -> None:
        """Give some unknowns another variance (Woodbury's identity); 0: they are 0."""
        more = (1 / variance if variance else np.inf) - self.prior[mine]
        if not more.any():  # to be inverted
            return
        own = self.cov[np.ix_(mine, mine)] + np.diag(1 / more)
        known = np.linalg.solve(own, np.c_[self.cov[mine], self.mean[mine]])
        self.mean = self.mean - self.cov[:, mine] @ known[:, -1]
        self.cov = self.cov - self.cov[:, mine] @ known[:, :-1]
        self.prior[mine] += more


def learn_constants(model: Model, rounds: int = 4) -> None:
    """Variances of GPUs' constants and of lags, in turns with the fit."""
    model.var = {kind: now or VARIANCES[kind] for kind, now in model.var.items()}
    model.prepare()
    model.settle()
    for _ in range(rounds):
        old, told = model.var, Posterior(model)
        for kind, grid in ((GPU, GRID), (LAG, SHARE), (WAVE, SHARE)):
            mine = np.flatnonzero(model.kind == kind)
            if len(mine):
                gain, variance = told.best(mine, grid)
                model.var = {**model.var, kind: variance if gain > 1 else 0.0}
        model.prepare()
        model.settle()
        if old == model.var:
            return


def learn_bends(model: Model, rounds: int = 2, prune: bool = False) -> None:
    """Variances of bends, in turns with the fit; if `prune`, those that do not pay are given up,
    the least one first, as one may stand for another."""
    bent = np.flatnonzero(model.bend_var > 0)
    for _ in range(rounds if len(bent) else 0):
        of = np.flatnonzero(model.kind == BEND).reshape(len(bent), -1)
        told, var = Posterior(model), model.bend_var.copy()
        places, gains = dict(zip(bent.tolist(), of, strict=True)), {}
        for _ in range(3):  # set at once, two that stand for each other would both be given up
            for unit, mine in places.items():
                gains[unit], var[unit] = told.best(mine, GRID)
                told.change(mine, var[unit])
        while prune and places and min(gains.values()) < price(model):
            worst = min(gains, key=gains.__getitem__)
            told.change(places.pop(worst), 0.0)
            var[worst] = 0.0
            gains = {unit: told.best(mine, GRID)[0] for unit, mine in places.items()}
        model.bend_var = var
        model.prepare()
        model.settle(6)
