"""Offsets and drifts of many clocks in one robust least-squares fit on the ends of collectives.

Model: end_ki + o_i + d_i * (end_ki - m_i) = E_k + noise, for instance k and rank i, where m_i is
the middle of the rank's span and E_k the common end. The E_k are eliminated by hand, which leaves
two unknowns per clock. A ring lets its ranks go one after the other, in a lag that grows with the
transfer: each rank's share of it in each group is fitted too, so that the offset is the one of an
infinitely short transfer; where all transfers are alike, a prior leaves the lag at 0. Weights:
instances are sorted by shortest duration, and each class weighs as much as its ends scatter little;
single outliers are damped by Tukey's biweight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from traceweave.weave.anchors import Block
from traceweave.weave.calls import Flags, Floats, Ints
from traceweave.weave.pairs import fit_line
from traceweave.weave.residuals import drift_errors

ROUNDS = 12
TUKEY = 4.685
"""Biweight constant with 95 % efficiency for normal noise."""
FLOOR_NS = 500.0
"""Ends are never trusted to better than this: device timestamps have steps of 32 ns to 1 us."""
SLOPE_PRIOR = 0.1
"""How far a rank's ends may lag, as a share of the transfer time: 28 to 45 us of 400 us in A100
rings.
"""
SPREAD = 2.0
"""Lags are fitted where transfer times vary by this many times the scatter of the ends."""
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


def connect(blocks: list[Block], ranks: int) -> tuple[Ints, Floats]:
    """Component of each rank, and how many instances each two ranks share."""
    shared = np.zeros((ranks, ranks))
    for block in blocks:
        present = np.isfinite(block.end).astype(np.float64)
        shared[np.ix_(block.ranks, block.ranks)] += present.T @ present
    np.fill_diagonal(shared, 0.0)
    return np.asarray(connected_components(coo_matrix(shared), directed=False)[1]), shared


def rough(blocks: list[Block], shared: Floats, roots: list[int], middle: Floats) -> Fit:
    """First estimate: lines through end differences along the tree of the ranks that share most."""
    ranks = len(shared)
    cost = np.where(shared > 0, 1.0 / np.maximum(shared, 1.0), 0.0)
    tree = minimum_spanning_tree(coo_matrix(cost))
    offset, drift = np.zeros(ranks), np.zeros(ranks)
    for root in roots:
        order, parent = breadth_first_order(tree, root, directed=False)
        for rank in order[1:]:
            up = int(parent[rank])
            at, difference = _differences(blocks, int(rank), up)
            line = fit_line(at, difference)
            here = line.offset + line.drift * (middle[rank] - line.at)
            on_parent = middle[rank] + here
            offset[rank] = here + offset[up] + drift[up] * (on_parent - middle[up])
            drift[rank] = line.drift + drift[up]
    return Fit(offset, drift, np.full(ranks, np.inf), [])


def _differences(blocks: list[Block], rank: int, other: int) -> tuple[Floats, Floats]:
    """Ends of `rank`, and what has to be added to them to meet those of `other`, in time order."""
    at, difference = [], []
    for block in blocks:
        i, j = np.flatnonzero(block.ranks == rank), np.flatnonzero(block.ranks == other)
        if len(i) and len(j):
            mine, theirs = block.end[:, i[0]], block.end[:, j[0]]
            both = np.isfinite(mine) & np.isfinite(theirs)
            at.append(mine[both])
            difference.append(theirs[both] - mine[both])
    ends, found = np.concatenate(at), np.concatenate(difference)
    order = np.argsort(ends, kind="stable")
    return ends[order], found[order]


@dataclass(frozen=True)
class _Unknowns:
    """What is fitted: a clock per rank, and per block and column how much a rank's end lags with
    the transfer time.
    """

    offset: Floats
    drift: Floats
    slope: list[Floats]


@dataclass(frozen=True)
class _Problem:
    """The fixed side of a fit: anchors, and which clocks are tied, fixed or free to drift."""

    blocks: list[Block]
    middle: Floats
    unit: Ints
    fixed: Flags
    drifting: Flags
    scale: float
    """Half the span of the anchors, ns: makes drift and offset unknowns of one size."""

    lagging: Flags
    """Per column of all blocks: its lag can be told from an offset."""

    @property
    def size(self) -> int:
        """Number of unknowns before ties."""
        return 2 * len(self.middle) + sum(len(block.ranks) for block in self.blocks)

    def rest(self, block: Block, now: _Unknowns, bias: Floats | None) -> Floats:
        """Ends on the common clock, from each instance's median, without the lag that `bias`
        explains.
        """
        end = block.shifted(now.offset, now.drift, self.middle).end
        rest = end - np.nanmedian(end, axis=1, keepdims=True)
        return np.asarray(rest if bias is None else rest + bias * block.transfer[:, None])

    def tied(self, normal: Floats, right: Floats, now: _Unknowns) -> Floats:
        """Solve with ranks of one clock tied together and fixed clocks left out."""
        ranks, units = len(self.unit), int(self.unit.max()) + 1
        extra = self.size - 2 * ranks
        row = np.arange(ranks)
        tie = coo_matrix(
            (
                np.concatenate([~self.fixed, ~self.fixed & self.drifting, self.lagging]),
                (
                    np.arange(self.size),
                    np.concatenate(
                        [self.unit[row], units + self.unit[row], 2 * units + np.arange(extra)]
                    ),
                ),
            ),
            shape=(self.size, 2 * units + extra),
        ).tocsc()
        used = np.flatnonzero(np.asarray(abs(tie).sum(axis=0)).ravel())
        tie = tie[:, used]
        # a lag of a tenth of the transfer time is as much as rings show
        prior = np.where(used >= 2 * units, SLOPE_PRIOR**-2, 0.0)
        bias = np.concatenate(now.slope) if now.slope else np.empty(0)
        known = np.zeros(len(used))
        known[used >= 2 * units] = bias[used[used >= 2 * units] - 2 * units]
        reduced = tie.T @ (tie.T @ normal).T + np.diag(prior)
        target = tie.T @ right - prior * known
        balance = 1.0 / np.sqrt(np.maximum(reduced.diagonal(), 1e-300))
        matrix = reduced * balance * balance[:, None] + 1e-10 * np.eye(len(used))
        return np.asarray(tie @ (balance * solve(matrix, balance * target, assume_a="sym")))


def _transfers_vary(block: Block, end: Floats) -> bool:
    """Whether the transfer times differ by clearly more than the ends scatter; else they are noise
    themselves.
    """
    center = np.nanmedian(end, axis=1, keepdims=True)
    scatter = float(np.median(np.nanmax(np.abs(end - center), axis=1)))
    return bool(block.proves and np.std(block.transfer) >= SPREAD * scatter)


def refine(
    blocks: list[Block], start: Fit, middle: Floats, unit: Ints, fixed: Flags, drifting: Flags
) -> Fit:
    """Fit jointly from a first estimate.

    `unit`: number of the clock of each rank; `fixed` clocks keep offset and drift 0; `drifting`
    ranks may have a drift.
    """
    widest = [float(np.nanmax(np.abs(b.end - middle[b.ranks]), initial=1.0)) for b in blocks]
    shifted = [block.shifted(start.offset, start.drift, middle).end for block in blocks]
    lagging = [
        np.full(len(block.ranks), _transfers_vary(block, end))
        for block, end in zip(blocks, shifted, strict=True)
    ]
    problem = _Problem(
        blocks, middle, unit, fixed, drifting, max([1.0, *widest]), np.concatenate(lagging)
    )
    now = _Unknowns(
        start.offset.copy(),
        np.where(drifting, start.drift, 0.0),
        [np.zeros(len(block.ranks)) for block in blocks],
    )
    weights: list[Floats] = []
    for _ in range(ROUNDS):
        weights = _weights(problem, now)
        following = _solve(problem, weights, now)
        step = np.abs(following.offset - now.offset).max(initial=0.0)
        now = following
        if step < 5.0:
            break
    residuals = [
        _residual(problem.rest(block, now, None), weight)
        for block, weight in zip(blocks, weights, strict=True)
    ]
    return Fit(now.offset, now.drift, drift_errors(blocks, residuals, middle), residuals)


def _residual(rest: Floats, weight: Floats) -> Floats:
    """Distance of each end from the weighted mean of its instance's other ends."""
    known = np.isfinite(rest)
    filled = np.where(known, rest, 0.0)
    others = weight.sum(axis=1, keepdims=True) - weight
    total = np.sum(weight * filled, axis=1, keepdims=True) - weight * filled
    mean = total / np.where(others > 0, others, np.inf)
    return np.where(known, filled - mean, np.nan)


def _weights(problem: _Problem, now: _Unknowns) -> list[Floats]:
    """Weight of every end: its class's 1 / scatter², damped for outliers.

    The scatter counts the lag that the slopes explain, so that short transfers keep the say where
    the lag is not linear.
    """
    blocks = problem.blocks
    transfer = np.concatenate([block.transfer for block in blocks])
    bins = np.round(np.log2(np.maximum(transfer, 1_000.0))).astype(np.int64)
    plain = [problem.rest(block, now, None) for block in blocks]
    spread = np.concatenate([np.nanmedian(np.abs(r), axis=1) for r in plain])
    scatter = np.full(int(bins.max()) + 1, FLOOR_NS)
    for value in np.unique(bins):
        scatter[value] = max(FLOOR_NS, 1.4826 * float(np.median(spread[bins == value])))
    result, row = [], 0
    for block, bias in zip(blocks, now.slope, strict=True):
        rest = problem.rest(block, now, bias)
        scale = scatter[bins[row : row + len(rest)]][:, None]
        row += len(rest)
        u = np.minimum(np.abs(np.where(np.isfinite(rest), rest, np.inf)) / (TUKEY * scale), 1.0)
        # an outlier keeps a trace of weight, or a clock could come loose from all others
        weight = np.where(np.isfinite(rest), np.maximum((1 - u**2) ** 2, 1e-6), 0.0) / scale**2
        result.append(weight if block.proves else WEAK * weight)
    return result


def _solve(problem: _Problem, weights: list[Floats], now: _Unknowns) -> _Unknowns:
    """One least-squares step: normal equations after eliminating every instance's common end."""
    ranks, size = len(now.offset), problem.size
    normal, right = np.zeros((size, size)), np.zeros(size)
    slope = 2 * ranks
    for block, weight, bias in zip(problem.blocks, weights, now.slope, strict=True):
        columns = len(block.ranks)
        place = np.r_[block.ranks, ranks + block.ranks, slope + np.arange(columns)]
        slope += columns
        total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
        rest = np.where(weight > 0, problem.rest(block, now, bias), 0.0)
        mean = np.sum(weight * rest, axis=1, keepdims=True) / total
        at = np.where(weight > 0, (block.end - problem.middle[block.ranks]) / problem.scale, 0.0)
        lag = np.broadcast_to(block.transfer[:, None], at.shape)
        basis = (np.ones_like(at), at, lag)
        weighted = np.hstack([weight * phi for phi in basis])
        right[place] += np.sum(weighted * np.tile(mean - rest, 3), axis=0)
        part = -_gram(weighted / total, weighted)
        for p, left in enumerate(basis):
            for q, other in enumerate(basis):
                row, column = p * columns + np.arange(columns), q * columns + np.arange(columns)
                part[row, column] += np.einsum("ij,ij,ij->j", weight, left, other)
        normal[np.ix_(place, place)] += part
    step = problem.tied(normal, right, now)
    borders = np.cumsum([len(block.ranks) for block in problem.blocks])[:-1]
    return _Unknowns(
        now.offset + step[:ranks],
        now.drift + step[ranks : 2 * ranks] / problem.scale,
        [b + x for b, x in zip(now.slope, np.split(step[2 * ranks :], borders), strict=True)],
    )


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
