"""How late a ring lets each of its ranks go: the wave behind the last arriver, and how large each
rank's own lag may be, first by what rings are like, then by what these calls show.

Lags are random effects with a variance per sort. The variance that makes the ends most likely is
found by fixed-point steps (MacKay's: they end where expectation maximization does, in a few rounds
instead of hundreds). Where ends show no lags, none are made up out of noise; where nothing tells
lags from offsets, the first variance stays.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.equations import Layout
from traceweave.clocks.transfer_classes import Cell

if TYPE_CHECKING:
    from traceweave.clocks.elimination import Elimination

SLOPE = 0.02
"""Standard deviation of a rank's lag as a share of the transfer time: 8 us of 400 us."""
OWN = 0.25
"""Standard deviation of a lag of one sort of collective, as a share of how far its ends lie
apart."""
OWN_FLOOR_NS = 500.0
PROBES = 16
"""Random vectors that estimate traces of the inverse, which would cost much more themselves."""
FEW = 8
"""Lags of a sort up to which it costs little."""
PROBED = 1e-2
"""Relative error of what they are compared with."""
INERTIA = 0.01
"""Share of a sort's lags that has to be told apart from clocks before its variance moves."""
LEAST = 0.02
"""Learning shrinks a standard deviation at most to this share of the first."""

WAVE = 0.2
"""Standard deviation of a wave's height as a share of the transfer time, before any is learned; on
8 H100 it is 92 of 450 us."""
TELLING = 16
"""Instances of a sort whose waves are learned from. The wave of a few belongs to whoever arrived
last then, and what is not taken for it is taken for their clocks."""

HEIGHTS = "heights of waves"
SLOPES = "slopes"
GPUS = "gpus"
GPU_NS = 10_000.0
"""Standard deviation of what a GPU's timestamps are ahead of its host's clock, at most; CUPTI's
conversion differs by some microseconds from GPU to GPU."""


def wave_of(cell: Cell, start: Floats) -> Floats:
    """How far each rank lies from the last arriver along the ring, from 1 (it) to 0 (opposite).

    `start` is on the common clock. Rings go in the order of ranks. In all-gathers of 151 MB over 8
    H100 the last arriver ends 92 us after the rank opposite to it.
    """
    known = np.isfinite(start)
    last = np.where(known, start, -np.inf).argmax(axis=1)[:, None]
    size = start.shape[1]
    apart = np.abs(np.arange(size) - last)
    if cell.pairwise:
        return np.asarray(apart == 0, dtype=np.float64)
    return np.asarray(1 - np.minimum(apart, size - apart) / max(1, size // 2), dtype=np.float64)


def places_of_sorts(layout: Layout, cells: list[Cell]) -> dict[Hashable, Ints]:
    """Where the lags of each sort stand among the unknowns, and the heights of waves."""
    found: dict[Hashable, list[Ints]] = {SLOPES: []}
    for cell in cells:
        found[SLOPES].append(layout.slopes(cell).ravel())
        found[cell.wave] = [layout.owns(cell).ravel()]
    places = {sort: np.unique(np.concatenate(places)) for sort, places in found.items()}
    gpus = layout.gpu[layout.gpu < layout.size]
    told = [layout.wave[cell.number] for cell in cells if len(cell.rows) >= TELLING]
    heights = np.array(told, dtype=np.int64)
    return places | {sort: at for sort, at in ((GPUS, gpus), (HEIGHTS, heights)) if len(at)}


def first_variance(spread_ns: float) -> float:
    """Return the variance of a sort's own lags before anything is known but how far its ends lie
    apart."""
    return max(OWN_FLOOR_NS, OWN * spread_ns) ** 2


def learn(
    variance: dict[Hashable, float],
    first: dict[Hashable, float],
    places: dict[Hashable, Ints],
    told: Floats,
    unit: Floats,
    factor: Elimination,
) -> dict[Hashable, float]:
    """Return each sort's variance after one step towards its most likely value: that under which
    the lags found, `told` in units of the unknowns, are as large as those that can be told from
    clocks should be.
    """
    probes, columns = _probes(variance, places, unit)
    shares = probes * factor.solve(probes, PROBED)
    learned: dict[Hashable, float] = {}
    for sort, place in places.items():
        known = len(place) - float(shares[place, columns[sort]].sum())
        found = np.sum(told[place] ** 2) + INERTIA * len(place) * variance[sort]
        value = float(found / (max(known, 0.0) + INERTIA * len(place)))
        least = LEAST**2 * first[sort]
        learned[sort] = float(np.clip(value, least, first[sort]))
    return learned


def _probes(
    variance: dict[Hashable, float], places: dict[Hashable, Ints], unit: Floats
) -> tuple[Floats, dict[Hashable, slice]]:
    """Vectors whose products with the inverse, in units of what was thought of each unknown, add up
    over a sort's places to how many of its lags are still not known; and which of them are a
    sort's: exactly where that is few unknowns, else about. Those of many are in the same vectors:
    of n known lags they find n to within sqrt(2 n / PROBES), whatever else is in them.
    """
    rng = np.random.default_rng(0)
    columns, count = {}, PROBES
    for sort, place in places.items():
        few = len(place) <= FEW
        columns[sort] = slice(count, count + len(place)) if few else slice(PROBES)
        count += len(place) if few else 0
    probes = np.zeros((len(unit), count))
    for sort, place in places.items():
        of_sort = 1 / (np.sqrt(variance[sort]) * unit[place])
        if len(place) <= FEW:
            probes[place, np.arange(count)[columns[sort]]] = of_sort
        else:
            signs = rng.choice([-1.0, 1.0], (len(place), PROBES))
            probes[place, :PROBES] = signs * of_sort[:, None] / np.sqrt(PROBES)
    return probes, columns
