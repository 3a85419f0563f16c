"""How large the lags of a ring's ranks may be: first by what rings are like, then by what these
calls show.

Lags are random effects with a variance per sort. It is learned by expectation maximization: the
variance that makes the lags found, and what is left open about them, as likely as can be. Where
ends show no lags, none are made up out of noise; where nothing tells lags from offsets, the first
variance stays.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from traceweave.weave.calls import Floats, Ints
from traceweave.weave.cells import Cell
from traceweave.weave.equations import Factor, Layout

SLOPE = 0.02
"""Standard deviation of a rank's lag as a share of the transfer time: 8 us of 400 us."""
OWN = 0.25
"""Standard deviation of a lag of one sort of collective, as a share of how far its ends lie
apart."""
OWN_FLOOR_NS = 500.0
PROBES = 16
"""Random vectors that estimate a trace of the inverse, which would cost much more itself."""
LEAST = 0.02
"""Learning shrinks a standard deviation at most to this share of the first."""

SLOPES = "slopes"


def places_of_sorts(layout: Layout, cells: list[Cell]) -> dict[Hashable, Ints]:
    """Where the lags of each sort stand among the unknowns."""
    found: dict[Hashable, list[Ints]] = {SLOPES: []}
    for cell in cells:
        columns = np.arange(len(cell.ranks))
        found[SLOPES].append(layout.slope[cell.lag[:2]] + columns)
        found.setdefault(cell.wave, []).append(layout.own[cell.lag] + columns)
    return {sort: np.unique(np.concatenate(places)) for sort, places in found.items()}


def first_variance(spread_ns: float) -> float:
    """Return the variance of a sort's own lags before anything is known but how far its ends lie
    apart."""
    return max(OWN_FLOOR_NS, OWN * spread_ns) ** 2


def learn(
    variance: dict[Hashable, float],
    first: dict[Hashable, float],
    places: dict[Hashable, Ints],
    unknowns: Floats,
    factor: Factor,
) -> dict[Hashable, float]:
    """Return each sort's variance after one step of expectation maximization."""
    rng = np.random.default_rng(0)
    probes = np.zeros((factor.size, PROBES * len(places)))
    for number, place in enumerate(places.values()):
        columns = slice(number * PROBES, (number + 1) * PROBES)
        probes[place, columns] = rng.choice([-1.0, 1.0], (len(place), PROBES))
    answers = np.sum(probes * factor.solve(probes), axis=0).reshape(-1, PROBES).mean(axis=1)
    learned = {}
    for (sort, place), trace in zip(places.items(), answers, strict=True):
        found = float(np.mean(unknowns[place] ** 2) + trace / len(place))
        learned[sort] = float(np.clip(found, LEAST**2 * first[sort], first[sort]))
    return {sort: min(variance[sort], value) for sort, value in learned.items()}
