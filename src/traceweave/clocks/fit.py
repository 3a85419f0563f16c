"""Offsets and drifts of many clocks in one robust least-squares fit on the ends of collectives.

Model, for instance k of cell c and rank i, on the rank's own clock with middle m_i:

    end_ki + o_i + d_i * (end_ki - m_i)
        = E_k + s_gi * T_c + b_ci + (A_c + B_c * (T_k - T_c)) * wave_ki + noise(sigma_c)

E_k is the instance's common end, eliminated by hand. The lags of a ring's ranks are not known and
cannot be told from offsets by any one sort of collective, so they are random effects: s_gi grows
with the transfer time T_c (N(0, SLOPE²): what several transfer times tell apart from an offset is
extrapolated away), b_ci belongs to the sort alone (N(0, tau_c²), tau_c a share of how far its ends
lie apart). The wave follows whoever arrived last, so it is told apart by who that was. Clocks that
are one share o and d. The noise is Student's t, of ends and of instances; its size comes from the
data.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.equations import (
    WAVES,
    Layout,
    Part,
    equations_of,
    lay_out,
    right_side,
)
from traceweave.clocks.matrices import Block
from traceweave.clocks.residuals import drift_errors
from traceweave.clocks.ring_lags import (
    GPU_NS,
    GPUS,
    HEIGHTS,
    SLOPE,
    SLOPES,
    WAVE,
    first_variance,
    learn,
    places_of_sorts,
    wave_of,
)
from traceweave.clocks.scatter import Scatter, measure_scatter
from traceweave.clocks.transfer_classes import Cell, make_cells
from traceweave.medians import row_medians

ROUNDS = 40
GENTLE = 3
"""First rounds: without the wave, which needs to know who arrived last, and with Huber's weights.
Ends that a wave puts in two heaps have their mean in the right place, not their median.
"""
HUBER = 1.345
LEARNING = 30
"""Rounds in which the size of lags is learned."""
LAST_ROUNDS = 4
"""Rounds with all instances, after those with a sample."""
SAMPLE = 1_500
"""Instances per group and cell that the first rounds see;"""
ENDS = 500_000
"""fewer where these are more ends than that,"""
LEAST = 100
"""but no fewer."""
LEARNED = 0.1
"""A variance that changes by a smaller share in a round has been learned."""
FLOOR_NS = 500.0
"""Ends are never trusted to better than this: device timestamps have steps of 32 ns to 1 us."""
HIGHEST = 0.5
"""No wave is a larger share of the transfer."""
GROWTH = 1.0
"""Standard deviation of how the wave grows with an instance's transfer, ns per ns."""
DRIFT = 1e-3
"""Standard deviation of a drift before anything is known of it: so wide that no drift that the ends
show is made smaller, whatever it is; a clock that wanders may run at several 100 ppm for a while.
"""
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
    drift_error: Floats
    """Standard error of the drift from how block medians scatter; inf where it cannot be told."""
    residuals: list[Floats]
    """Per block: end minus the other ranks' common end, ns; NaN where absent."""
    clean: list[Floats]
    """The same without the lags that the fit explains."""
    rests: list[Floats] = field(default_factory=list)
    """Per block: end minus the median of its instance, without the lags that the fit explains."""
    whole: list[Floats] = field(default_factory=list)
    """The same with them."""


def unfitted(offset: Floats, drift: Floats) -> Fit:
    """Return clocks that nothing has been fitted to."""
    unknown = np.full(len(offset), np.inf)
    return Fit(offset, drift, unknown, [], [])


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
    offset: Floats
    drift: Floats
    unknowns: Floats
    """Current values of lags, waves and (times `scale`) drifts; what is not fitted has a last
    place with 0."""
    first: dict[Hashable, float] = field(
        default_factory=lambda: {SLOPES: SLOPE**2, GPUS: GPU_NS**2, HEIGHTS: WAVE**2}
    )
    """Variance of the lags of each sort before any is learned, and of the heights of waves."""
    variance: dict[Hashable, float] = field(default_factory=dict)
    scatter: dict[Hashable, Scatter] = field(default_factory=dict)
    """Per kind of wave: how the ends of its cells scatter beyond their lags."""
    precision: Floats = field(init=False)
    """Per unknown: 1 / variance of its prior."""
    unit: Floats = field(init=False)
    """Per unknown, what it is told in where sizes are learned: a wave in transfers."""
    longest: float = field(init=False)
    """Transfer time, ns."""

    def __post_init__(self) -> None:
        self.longest = max((float(cell.transfer.max()) for cell in self.cells), default=0.0)
        self.unit = np.ones(self.layout.size)
        for cell in self.cells:
            self.unit[self.layout.wave[cell.number]] = max(1.0, float(cell.transfer[0]))


def refine(
    blocks: list[Block],
    start: Fit,
    middle: Floats,
    unit: Ints,
    fixed: Flags,
    drifting: Flags,
    sharing: Flags,
    settled_ns: float,
) -> Fit:
    """Fit jointly from a first estimate, until offsets move no farther in a round.

    `unit`: number of the clock of each rank; `fixed` clocks keep offset and drift 0; `drifting`
    ranks may have a drift; those `sharing` a clock may lie a constant apart from it.
    """
    cells = make_cells(blocks)
    widest = [float(np.nanmax(np.abs(b.end - middle[b.ranks]), initial=1.0)) for b in blocks]
    scale = max([1.0, *widest])
    layout = lay_out(cells, unit, fixed, drifting, sharing)
    drift = np.where(drifting, start.drift, 0.0)
    unknowns = np.zeros(layout.size + 1)
    unknowns[layout.drift] = drift * scale
    unknowns[-1] = 0.0
    places = places_of_sorts(layout, cells)
    problem = _Problem(cells, middle, layout, scale, places, start.offset.copy(), drift, unknowns)
    sample = _sample(cells)
    gentle = 0 if start.residuals else GENTLE
    _improve(problem, sample, ROUNDS, gentle, settled_ns)
    if any(len(few.rows) < len(cell.rows) for few, cell in zip(sample, cells, strict=True)):
        _improve(problem, cells, LAST_ROUNDS, -LEARNING, settled_ns)
    residuals = _residuals(problem, blocks, np.zeros(layout.size + 1))
    clean = _residuals(problem, blocks, _plausible(problem))
    return Fit(
        problem.offset,
        problem.drift,
        drift_errors(blocks, clean, middle),
        residuals,
        clean,
        _rests(problem, blocks, problem.unknowns),
        _rests(problem, blocks, np.zeros(layout.size + 1)),
    )


def _improve(
    problem: _Problem, cells: list[Cell], rounds: int, gentle: int, settled_ns: float
) -> None:
    """Bring the clocks and lags of `problem` nearer to the ends of `cells`, round by round, until
    they settle; the first `gentle` rounds know no wave.
    """
    layout = problem.layout
    # imports SciPy, for which a run of one rank has no use
    from traceweave.clocks.elimination import Elimination

    times = [(cell.end - problem.middle[cell.ranks][cell.group]) / problem.scale for cell in cells]
    for turn in range(rounds):
        rests = [_rest(problem, cell, problem.unknowns) for cell in cells]
        learning = turn < gentle + LEARNING
        if learning:
            _estimate_noise(problem, cells, rests)
        if turn < gentle:
            for place in layout.wave:
                problem.precision[place : place + WAVES] = 1e30
        parts: list[Part] = []
        for cell, at, (bare, _, wave) in zip(cells, times, rests, strict=True):
            weight = _weights(bare, problem.scatter[cell.wave], cell, turn < gentle)
            parts.append(equations_of(cell, at, bare, wave, weight))
        right = right_side(layout, parts) - problem.precision * problem.unknowns[:-1]
        factor = Elimination(layout, parts, problem.precision)
        step = np.append(factor.solve(right[:, None]).ravel(), 0.0)
        problem.offset = problem.offset + step[layout.offset] + step[layout.gpu]
        problem.drift = problem.drift + step[layout.drift] / problem.scale
        problem.unknowns = problem.unknowns + step
        if gentle <= turn and learning:
            known = problem.first | problem.variance
            told = problem.unknowns[:-1] / problem.unit
            learned = learn(known, problem.first, problem.places, told, problem.unit, factor)
            problem.variance = learned
            learning = any(
                _changed(problem, sort, known[sort], learned[sort], settled_ns) for sort in learned
            )
        still = np.abs(step[layout.offset]).max(initial=0.0) < settled_ns
        if turn > gentle + 1 and still and not learning:
            break


def _sample(cells: list[Cell]) -> list[Cell]:
    """As many instances as tell the size of lags."""
    share = -(-sum(cell.end.size for cell in cells) // ENDS)
    most = [-(-int(np.bincount(cell.group).max()) // share) for cell in cells]
    return [
        cell.thinned(int(np.clip(some, LEAST, SAMPLE)))
        for cell, some in zip(cells, most, strict=True)
    ]


def _changed(problem: _Problem, sort: Hashable, old: float, new: float, settled_ns: float) -> bool:
    """Whether a variance is not learned yet: it has changed, and its lags by what counts."""
    size = problem.longest if sort in (SLOPES, HEIGHTS) else 1.0
    far = size * abs(np.sqrt(new) - np.sqrt(old)) > settled_ns
    return bool(far and abs(np.log(new / old)) > LEARNED)


def _plausible(problem: _Problem) -> Floats:
    """The unknowns without waves that no ring has: beside a line that a step has turned, a wave as
    high as a transfer fits ends well."""
    unknowns = problem.unknowns.copy()
    for cell in problem.cells:
        place = problem.layout.wave[cell.number]
        if abs(unknowns[place]) > HIGHEST * cell.transfer[0]:
            unknowns[place : place + WAVES] = 0.0
    return unknowns


def _rest(problem: _Problem, cell: Cell, unknowns: Floats) -> tuple[Floats, Floats, Floats]:
    """Ends on the common clock, from each instance's median and without lags; the same with lags;
    and the wave.
    """
    o, d, m = (of[cell.ranks][cell.group] for of in (problem.offset, problem.drift, problem.middle))
    end = cell.end + o + d * (cell.end - m)
    wave = wave_of(cell, cell.start + o + d * (cell.start - m))
    layout = problem.layout
    lag = unknowns[layout.slopes(cell)] * cell.transfer[:, None] + unknowns[layout.owns(cell)]
    height, growth = unknowns[layout.wave[cell.number] :][:WAVES]
    bare = end - lag[cell.group] - (height + growth * cell.excess)[:, None] * wave
    return bare - row_medians(bare), end - row_medians(end), wave


def _estimate_noise(
    problem: _Problem, cells: list[Cell], rests: list[tuple[Floats, Floats, Floats]]
) -> None:
    """The noise of every sort of collective, and how large its lags may be."""
    layout = problem.layout
    problem.precision = np.zeros(layout.size)
    problem.precision[np.unique(layout.drift[layout.drift < layout.size])] = (
        DRIFT * problem.scale
    ) ** -2
    for cell, (bare, whole, _) in zip(cells, rests, strict=True):
        problem.scatter[cell.wave] = measure_scatter(bare, FLOOR_NS)
        place = layout.wave[cell.number]
        problem.precision[place : place + WAVES] = (WAVE * problem.unit[place]) ** -2, GROWTH**-2
        problem.first[cell.wave] = first_variance(1.4826 * float(np.median(_spread(whole))))
    for sort, where in problem.places.items():
        variance = problem.variance.get(sort, problem.first[sort])
        problem.precision[where] = 1 / (variance * problem.unit[where] ** 2)


def _spread(rest: Floats) -> Floats:
    """Median distance from the median, per row."""
    return row_medians(np.abs(rest)).ravel()


def _weights(rest: Floats, scatter: Scatter, cell: Cell, gentle: bool) -> Floats:
    """Weight of every end, less for outliers, 0 where absent; by Huber, who keeps their direction
    if not their size, in `gentle` rounds.
    """
    if gentle:
        size = np.where(np.isfinite(rest), np.abs(rest) / scatter.sigma, np.inf)
        weight = np.minimum(HUBER / np.maximum(size, 1e-3), 1.0) / scatter.sigma**2
    else:
        weight = scatter.weights(rest)
    return weight * np.where(cell.proves, 1.0, WEAK)[cell.group][:, None]


def _residuals(problem: _Problem, blocks: list[Block], unknowns: Floats) -> list[Floats]:
    """Distance of each end from the weighted mean of its instance's other ends."""
    result = [np.full(block.end.shape, np.nan) for block in blocks]
    for cell in problem.cells:
        rest = _rest(problem, cell, unknowns)[0]
        known = np.isfinite(rest)
        filled = np.where(known, rest, 0.0)
        weight = _weights(rest, problem.scatter[cell.wave], cell, False)
        others = weight.sum(axis=1, keepdims=True) - weight
        total = np.sum(weight * filled, axis=1, keepdims=True) - weight * filled
        mean = total / np.where(others > 0, others, np.inf)
        _put(result, cell, np.where(known, filled - mean, np.nan))
    return result


def _rests(problem: _Problem, blocks: list[Block], unknowns: Floats) -> list[Floats]:
    """Distance of each end from the middle of its instance, lags taken out."""
    result = [np.full(block.end.shape, np.nan) for block in blocks]
    for cell in problem.cells:
        _put(result, cell, _rest(problem, cell, unknowns)[0])
    return result


def _put(result: list[Floats], cell: Cell, values: Floats) -> None:
    """Put a cell's values where they belong in those of the blocks."""
    for block, (low, high) in zip(cell.blocks.tolist(), pairwise(cell.borders), strict=True):
        result[block][cell.rows[low:high]] = values[low:high]
