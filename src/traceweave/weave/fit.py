"""Offsets and drifts of many clocks in one robust least-squares fit on the ends of collectives.

Model, for instance k of cell c and rank i, on the rank's own clock with middle m_i:

    end_ki + o_i + d_i * (end_ki - m_i) = E_k + s_gi * T_c + b_ci + A_c * wave_ki + noise(sigma_c)

E_k is the instance's common end, eliminated by hand. The lags of a ring's ranks are not known and
cannot be told from offsets by any one sort of collective, so they are random effects: s_gi grows
with the transfer time T_c (N(0, SLOPE²): what several transfer times tell apart from an offset is
extrapolated away), b_ci belongs to the sort alone (N(0, tau_c²), tau_c a share of how far its ends
lie apart). The wave follows whoever arrived last, so it is told apart by who that was. Clocks that
are one share o and d. Weights 1 / sigma_c² come from the data, single outliers are damped by
Tukey's biweight. What the random effects leave undecided ends up in the standard error.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from traceweave.weave.anchors import Block
from traceweave.weave.calls import Flags, Floats, Ints
from traceweave.weave.cells import Cell, make_cells, row_medians, wave_of
from traceweave.weave.equations import DENSE, Factor, Layout, equations, lay_out
from traceweave.weave.lags import SLOPE, SLOPES, first_variance, learn, places_of_sorts
from traceweave.weave.residuals import drift_errors

ROUNDS = 14
GENTLE = 3
"""First rounds: without the wave, which needs to know who arrived last, and with Huber's weights.
Ends that a wave puts in two heaps have their mean in the right place, not their median.
"""
HUBER = 1.345
LEARNING = 8
"""Rounds in which the size of lags is learned."""
SETTLED_NS = 20.0
TUKEY = 4.685
"""Biweight constant with 95 % efficiency for normal noise."""
FLOOR_NS = 500.0
"""Ends are never trusted to better than this: device timestamps have steps of 32 ns to 1 us."""
WAVE = 0.15
"""Standard deviation of the wave's height as a share of the transfer time."""
WEAK = 0.1
"""Weight of operations that do not hold every rank until the last one (broadcast, send, recv,
unknown).
"""


@dataclass(frozen=True)
class Fit:
    """Clocks of all ranks; arrays have one value per rank."""

    offset: Floats
    drift: Floats
    """Dimensionless."""
    error: Floats
    """Standard error of the offset, ns, lags that cannot be told from it included; inf without
    a fit."""
    drift_error: Floats
    """Standard error of the drift from how block medians scatter; inf where it cannot be told."""
    residuals: list[Floats]
    """Per block: end minus the other ranks' common end, ns; NaN where absent."""
    clean: list[Floats]
    """The same without the lags that the fit explains."""


def unfitted(offset: Floats, drift: Floats) -> Fit:
    """Return clocks that nothing has been fitted to."""
    unknown = np.full(len(offset), np.inf)
    return Fit(offset, drift, unknown, unknown, [], [])


@dataclass
class _Problem:
    """The fixed side of a fit, and the noise that is estimated on the way."""

    cells: list[Cell]
    middle: Floats
    layout: Layout
    scale: float
    """Half the span of the anchors, ns: makes drift and offset unknowns of one size."""
    places: dict[Hashable, Ints]
    """Where the lags of each sort stand."""
    first: dict[Hashable, float] = field(default_factory=lambda: {SLOPES: SLOPE**2})
    """Variance of the lags of each sort before any is learned."""
    variance: dict[Hashable, float] = field(default_factory=dict)
    sigma: Floats = field(init=False)
    """Per cell: scatter of its ends, ns."""
    precision: Floats = field(init=False)
    """Per unknown: 1 / variance of its prior."""


def refine(
    blocks: list[Block], start: Fit, middle: Floats, unit: Ints, fixed: Flags, drifting: Flags
) -> Fit:
    """Fit jointly from a first estimate.

    `unit`: number of the clock of each rank; `fixed` clocks keep offset and drift 0; `drifting`
    ranks may have a drift.
    """
    cells = make_cells(blocks)
    widest = [float(np.nanmax(np.abs(b.end - middle[b.ranks]), initial=1.0)) for b in blocks]
    layout = lay_out(cells, unit, fixed, drifting)
    places = places_of_sorts(layout, cells)
    problem = _Problem(cells, middle, layout, max([1.0, *widest]), places)
    times = [(cell.end - middle[cell.ranks]) / problem.scale for cell in cells]
    offset, drift = start.offset.copy(), np.where(drifting, start.drift, 0.0)
    unknowns = np.zeros(layout.size + 1)
    factor = Factor(np.zeros((0, 0)))
    gentle = 0 if start.residuals else GENTLE
    learning = LEARNING if layout.size <= DENSE else LEARNING // 3
    for turn in range(ROUNDS):
        rests = [_rest(problem, cell, offset, drift, unknowns) for cell in cells]
        _estimate_noise(problem, rests)
        if turn < gentle:
            problem.precision[list(layout.wave.values())] = 1e30
        weigh = _gentle if turn < gentle else _weights
        weights = [weigh(r[0], s, c) for r, s, c in zip(rests, problem.sigma, cells, strict=True)]
        bare, _, waves = zip(*rests, strict=True)
        normal, right = equations(layout, cells, times, bare, waves, weights, problem.precision)
        right -= problem.precision * unknowns[:-1]
        factor = Factor(normal)
        step = np.append(factor.solve(right[:, None]).ravel(), 0.0)
        offset = offset + step[layout.offset]
        drift = drift + step[layout.drift] / problem.scale
        unknowns = unknowns + step
        if gentle <= turn < gentle + learning:
            known = problem.first | problem.variance
            problem.variance = learn(known, problem.first, places, unknowns, factor)
        if turn > gentle + 1 and np.abs(step[layout.offset]).max(initial=0.0) < SETTLED_NS:
            break
    error = np.full(layout.size + 1, 0.0)
    error[: layout.clocks] = factor.standard_errors(layout.clocks)
    residuals = _residuals(problem, blocks, offset, drift, np.zeros(layout.size + 1))
    clean = _residuals(problem, blocks, offset, drift, unknowns)
    error = error[layout.offset]
    return Fit(offset, drift, error, drift_errors(blocks, clean, middle), residuals, clean)


def _rest(
    problem: _Problem, cell: Cell, offset: Floats, drift: Floats, unknowns: Floats
) -> tuple[Floats, Floats, Floats]:
    """Ends on the common clock, from each instance's median and without lags; the same with lags;
    and the wave.
    """
    o, d, m = offset[cell.ranks], drift[cell.ranks], problem.middle[cell.ranks]
    end = cell.end + o + d * (cell.end - m)
    wave = wave_of(cell, cell.start + o + d * (cell.start - m))
    layout, columns = problem.layout, np.arange(len(cell.ranks))
    lag = unknowns[layout.slope[cell.lag[:2]] + columns] * cell.transfer
    lag = lag + unknowns[layout.own[cell.lag] + columns]
    bare = end - lag - unknowns[layout.wave[cell.wave]] * wave
    return bare - row_medians(bare), end - row_medians(end), wave


def _estimate_noise(problem: _Problem, rests: list[tuple[Floats, Floats, Floats]]) -> None:
    """The noise of every sort of collective, and how large its lags may be."""
    layout = problem.layout
    kinds = sorted({cell.wave for cell in problem.cells})
    problem.sigma = np.full(len(problem.cells), FLOOR_NS)
    problem.precision = np.zeros(layout.size)
    for kind in kinds:
        members = [n for n, cell in enumerate(problem.cells) if cell.wave == kind]
        bare = np.concatenate([_spread(rests[n][0]) for n in members])
        whole = np.concatenate([_spread(rests[n][1]) for n in members])
        problem.sigma[members] = max(FLOOR_NS, 1.4826 * float(np.median(bare)))
        transfer = max(1.0, problem.cells[members[0]].transfer)
        problem.precision[layout.wave[kind]] = (WAVE * transfer) ** -2
        problem.first[kind] = first_variance(1.4826 * float(np.median(whole)))
    for sort, place in problem.places.items():
        problem.precision[place] = 1 / problem.variance.get(sort, problem.first[sort])


def _spread(rest: Floats) -> Floats:
    """Median distance from the median, per row."""
    return row_medians(np.abs(rest)).ravel()


def _gentle(rest: Floats, sigma: float, cell: Cell) -> Floats:
    """Weight of every end by Huber: outliers keep their direction, not their size."""
    known = np.isfinite(rest)
    size = np.maximum(np.abs(np.where(known, rest, 0.0)), 1.0)
    weight = np.where(known, np.minimum(HUBER * sigma / size, 1.0), 0.0) / sigma**2
    return weight if cell.proves else WEAK * weight


def _weights(rest: Floats, sigma: float, cell: Cell) -> Floats:
    """Weight of every end: 1 / sigma², damped for outliers."""
    known = np.isfinite(rest)
    u = np.minimum(np.abs(np.where(known, rest, np.inf)) / (TUKEY * sigma), 1.0)
    # an outlier keeps a trace of weight, or a clock could come loose from all others
    weight = np.where(known, np.maximum((1 - u**2) ** 2, 1e-6), 0.0) / sigma**2
    return weight if cell.proves else WEAK * weight


def _residuals(
    problem: _Problem, blocks: list[Block], offset: Floats, drift: Floats, unknowns: Floats
) -> list[Floats]:
    """Distance of each end from the weighted mean of its instance's other ends."""
    result = [np.full(block.end.shape, np.nan) for block in blocks]
    for cell, sigma in zip(problem.cells, problem.sigma, strict=True):
        rest = _rest(problem, cell, offset, drift, unknowns)[0]
        known = np.isfinite(rest)
        filled = np.where(known, rest, 0.0)
        weight = _weights(rest, sigma, cell)
        others = weight.sum(axis=1, keepdims=True) - weight
        total = np.sum(weight * filled, axis=1, keepdims=True) - weight * filled
        mean = total / np.where(others > 0, others, np.inf)
        result[cell.block][cell.rows] = np.where(known, filled - mean, np.nan)
    return result
