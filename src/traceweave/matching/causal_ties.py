"""Does causality tie ranks to one group, where their ends scatter too far to tell?

A collective ends nowhere before it has begun everywhere. Two groups side by side know nothing of
each other, so how long one of them takes has nothing to do with how much later the other begins:
dealt anew among calls of one sort, their durations would contradict causality as seldom as they do
now. Where it never is contradicted and dealt anew almost always would be, they are one group,
however far their ends scatter.
"""

from __future__ import annotations

import itertools

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.matching.ties import LEAST, Bundle

DEALS = 999
"""How often durations are dealt anew."""
CHANCE = 5e-3
"""Largest share of deals that may obey causality as well."""
ROOM_NS = 100_000.0
"""Lines describe clocks to better than this."""


def confirms(whole: Bundle, rivals: list[list[Ints]], sort: Ints) -> bool:
    """Whether causality holds for every row of a bundle, under one line per clock, and would not if
    it were any of the rivals; `sort`: what kind of call each row is.
    """
    return all(
        _by_chance(whole, one, other, sort) <= CHANCE
        for parts in rivals
        for one, other in itertools.pairwise(parts)
    )


def _by_chance(whole: Bundle, one: Ints, other: Ints, sort: Ints) -> float:
    """Share of deals under which two parts obey causality; 1 if they do not now."""
    begun = [whole.start[:, part].max(axis=1) for part in (one, other)]
    ended = [whole.end[:, part].min(axis=1) for part in (one, other)]
    known = np.isfinite(begun[0]) & np.isfinite(begun[1])
    later = (begun[1] - begun[0])[known]
    took = [(e - b)[known] for e, b in zip(ended, begun, strict=True)]
    if known.sum() < LEAST or not _possible(later, took[0], took[1]):
        return 1.0
    rng = np.random.default_rng(0)
    deals = (_dealt(sort[known], rng) for _ in range(DEALS))
    obeyed = sum(_possible(later, took[0][order], took[1][order]) for order in deals)
    return (obeyed + 1) / (DEALS + 1)


def _possible(later: Floats, first_took: Floats, other_took: Floats) -> bool:
    """Whether some constant between the clocks of two parts lets neither end before the other has
    begun; `later`: how much later the other has begun.
    """
    return bool((later - first_took).max() - ROOM_NS <= (later + other_took).min())


def _dealt(sort: Ints, rng: np.random.Generator) -> Ints:
    """Places dealt anew among rows of one sort."""
    order = np.arange(len(sort))
    for value in np.unique(sort):
        rows = np.flatnonzero(sort == value)
        order[rows] = rng.permutation(rows)
    return order
