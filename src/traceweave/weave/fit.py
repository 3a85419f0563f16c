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

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from traceweave.weave.anchors import Block
from traceweave.weave.calls import Flags, Floats, Ints
from traceweave.weave.cells import Cell, make_cells, row_medians, wave_of
from traceweave.weave.residuals import drift_errors

ROUNDS = 12
GENTLE = 3
"""First rounds: without the wave, which needs to know who arrived last, and with Huber's weights.
Ends that a wave puts in two heaps have their mean in the right place, not their median.
"""
HUBER = 1.345
TUKEY = 4.685
"""Biweight constant with 95 % efficiency for normal noise."""
FLOOR_NS = 500.0
"""Ends are never trusted to better than this: device timestamps have steps of 32 ns to 1 us."""
SLOPE = 0.02
"""Standard deviation of a rank's lag as a share of the transfer time: 8 us of 400 us."""
OWN = 0.25
"""Standard deviation of a lag of one sort of collective, as a share of how far its ends lie
apart."""
OWN_FLOOR_NS = 500.0
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


@dataclass(frozen=True)
class _Layout:
    """Where each unknown stands in the vector of all."""

    offset: Ints
    """Per rank; the last place of all is for what is not fitted."""
    drift: Ints
    clocks: int
    """How many places offsets take: the first ones."""
    slope: dict[tuple[int, int], int]
    own: dict[tuple[int, int, int], int]
    wave: dict[tuple[bool, int, int], int]
    size: int


@dataclass
class _Problem:
    """The fixed side of a fit, and the noise that is estimated on the way."""

    cells: list[Cell]
    middle: Floats
    layout: _Layout
    scale: float
    """Half the span of the anchors, ns: makes drift and offset unknowns of one size."""
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
    layout = _lay_out(cells, unit, fixed, drifting)
    problem = _Problem(cells, middle, layout, max([1.0, *widest]))
    offset, drift = start.offset.copy(), np.where(drifting, start.drift, 0.0)
    unknowns = np.zeros(layout.size + 1)
    normal = np.zeros((layout.size, layout.size))
    for turn in range(ROUNDS):
        rests = [_rest(problem, cell, offset, drift, unknowns) for cell in cells]
        _estimate_noise(problem, rests)
        if turn < GENTLE:
            problem.precision[list(layout.wave.values())] = 1e30
        weigh = _gentle if turn < GENTLE else _weights
        weights = [weigh(r[0], s, c) for r, s, c in zip(rests, problem.sigma, cells, strict=True)]
        normal, right = _equations(problem, rests, weights)
        right -= problem.precision * unknowns[:-1]
        step = np.append(_solve(normal, right), 0.0)
        offset = offset + step[layout.offset]
        drift = drift + step[layout.drift] / problem.scale
        unknowns = unknowns + step
        if turn >= GENTLE and np.abs(step[layout.offset]).max(initial=0.0) < 5.0:
            break
    error = np.full(layout.size + 1, 0.0)
    error[: layout.clocks] = _errors(normal, layout.clocks)
    residuals = _residuals(problem, blocks, offset, drift, np.zeros(layout.size + 1))
    clean = _residuals(problem, blocks, offset, drift, unknowns)
    error = error[layout.offset]
    return Fit(offset, drift, error, drift_errors(blocks, clean, middle), residuals, clean)


def _lay_out(cells: list[Cell], unit: Ints, fixed: Flags, drifting: Flags) -> _Layout:
    """Give every unknown its place: clocks first, then lags."""
    free = np.unique(unit[~fixed])
    moving = np.unique(unit[~fixed & drifting])
    size = len(free) + len(moving)
    slope: dict[tuple[int, int], int] = {}
    own: dict[tuple[int, int, int], int] = {}
    wave: dict[tuple[bool, int, int], int] = {}
    for cell in cells:
        columns = len(cell.ranks)
        if cell.lag[:2] not in slope:
            slope[cell.lag[:2]] = size
            size += columns
        if cell.lag not in own:
            own[cell.lag] = size
            size += columns
        if cell.wave not in wave:
            wave[cell.wave] = size
            size += 1
    offset = np.where(fixed, size, np.searchsorted(free, unit))
    drift = np.where(fixed | ~drifting, size, len(free) + np.searchsorted(moving, unit))
    return _Layout(offset, drift, len(free), slope, own, wave, size)


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
        tau = max(OWN_FLOOR_NS, OWN * 1.4826 * float(np.median(whole)))
        transfer = max(1.0, problem.cells[members[0]].transfer)
        problem.precision[layout.wave[kind]] = (WAVE * transfer) ** -2
        for n in members:
            cell = problem.cells[n]
            columns = np.arange(len(cell.ranks))
            problem.precision[layout.own[cell.lag] + columns] = tau**-2
            problem.precision[layout.slope[cell.lag[:2]] + columns] = SLOPE**-2


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


def _equations(
    problem: _Problem, rests: list[tuple[Floats, Floats, Floats]], weights: list[Floats]
) -> tuple[Floats, Floats]:
    """Normal equations after eliminating every instance's common end, priors included."""
    layout = problem.layout
    normal, right = np.zeros((layout.size + 1,) * 2), np.zeros(layout.size + 1)
    for cell, (rest, _, wave), weight in zip(problem.cells, rests, weights, strict=True):
        columns = np.arange(len(cell.ranks))
        rest = np.where(weight > 0, rest, 0.0)
        at = np.where(weight > 0, (cell.end - problem.middle[cell.ranks]) / problem.scale, 0.0)
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        # what each unknown adds to the rest: an offset 1, a drift the time, a wave -wave
        weighted = np.hstack([weight, weight * at, -np.sum(weight * wave, axis=1, keepdims=True)])
        gram = -_gram(weighted / total, weighted)
        size = len(columns)
        one, time = np.diag_indices(size), (columns + size, columns + size)
        gram[one] += weight.sum(axis=0)
        gram[time] += np.sum(weight * at**2, axis=0)
        cross = np.sum(weight * at, axis=0)
        gram[columns, columns + size] += cross
        gram[columns + size, columns] += cross
        for first, factor in ((columns, 1.0), (columns + size, at)):
            shared = -np.sum(weight * factor * wave, axis=0)
            gram[first, -1] += shared
            gram[-1, first] += shared
        gram[-1, -1] += np.sum(weight * wave**2)
        mean = np.sum(weight * rest, axis=1, keepdims=True) / total
        pull = weight * (mean - rest)
        vector = np.concatenate(
            [pull.sum(axis=0), (pull * at).sum(axis=0), [-np.sum(pull * wave)]]
        )
        _add(normal, right, _places(layout, cell), gram, vector)
    normal = normal[:-1, :-1]
    normal[np.diag_indices(layout.size)] += problem.precision
    return normal, right[:-1]


def _places(layout: _Layout, cell: Cell) -> list[tuple[Ints, Ints, float]]:
    """(place of the unknown, column of the cell's own equations, factor) of everything that moves
    its ends.
    """
    size = len(cell.ranks)
    columns = np.arange(size)
    return [
        (layout.offset[cell.ranks], columns, 1.0),
        (layout.drift[cell.ranks], columns + size, 1.0),
        (layout.slope[cell.lag[:2]] + columns, columns, -cell.transfer),
        (layout.own[cell.lag] + columns, columns, -1.0),
        (np.array([layout.wave[cell.wave]]), np.array([2 * size]), 1.0),
    ]


def _add(
    normal: Floats,
    right: Floats,
    places: list[tuple[Ints, Ints, float]],
    gram: Floats,
    vector: Floats,
) -> None:
    """Add a cell's equations to those of all; ranks of one clock meet in one place."""
    for place, column, factor in places:
        np.add.at(right, place, factor * vector[column])
        for other, row, also in places:
            part = factor * also * gram[np.ix_(column, row)]
            np.add.at(normal, np.ix_(place, other), part)


def _solve(normal: Floats, right: Floats) -> Floats:
    """Solve the balanced equations by SuperLU: lags leave most of the matrix empty, and it uses one
    thread.

    On a busy machine the threads of a dense Cholesky wait for each other: 106 ms for 300 unknowns,
    against 13 ms.
    """
    if not right.size:
        return right
    balance = 1.0 / np.sqrt(np.maximum(normal.diagonal(), 1e-300))
    matrix = normal * balance * balance[:, None] + 1e-10 * np.eye(len(normal))
    factor = splu(
        csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )  # fmt: skip
    scaled = factor.solve(balance.reshape(-1, *[1] * (right.ndim - 1)) * right)
    return np.asarray(balance.reshape(-1, *[1] * (right.ndim - 1)) * scaled)


def _errors(normal: Floats, clocks: int) -> Floats:
    """Standard errors of the first unknowns: the weights are inverse variances, so the inverse
    holds them.
    """
    inverse = _solve(normal, np.eye(len(normal), clocks))
    return np.sqrt(np.maximum(inverse.diagonal(), 0.0))


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


def _gram(left: Floats, right: Floats) -> Floats:
    """left.T @ right; for narrow matrices in pieces that BLAS does not spread over threads.

    On a busy machine its threads wait for each other: 130 ms for 4000 x 24, against 0.6 ms in
    pieces.
    """
    columns = left.shape[1]
    if columns > 64:
        return np.asarray(left.T @ right)
    rows = 200_000 // columns**2
    full = len(left) // rows * rows
    product = left[full:].T @ right[full:]
    if full:
        a = left[:full].reshape(-1, rows, columns)
        b = right[:full].reshape(-1, rows, columns)
        product = product + np.matmul(a.transpose(0, 2, 1), b).sum(axis=0)
    return np.asarray(product)
