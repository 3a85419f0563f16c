"""The model of all clocks: its unknowns, weights and scales, and the fit of everything at once.

    end_ki + F(t_k) a_u(i) + sum_j H(t_k - s_j) h_j + g_i + T_c (l_gi + w_c crest_ki) = T_k + noise

of instance k of cell c and group g, and rank i with clock u. F is a line and a smooth bend, H a
step. Noise is Student's t with a scale per cell. T_k is eliminated: what counts of the ends of an
instance is how far they lie from their mean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import block_diag, csr_matrix, diags, hstack, identity

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.ends import Ends, places
from traceweave.clocks.start import DRIFT
from traceweave.medians import medians

NU = 3.0
"""Degrees of freedom of the noise of an end: one far out says less."""
CALM = 2.0
"""Those of the noise of an instance: ends of a ring lie together or apart, as others use the links.
"""
FLOOR_NS = 300.0
"""No end is trusted to better: device timestamps have steps of 32 ns to 1 us."""
KNOTS = 16
"""Spans of the bend: what turns faster than in a sixteenth of a recording is not told from noise.
"""
STEP_NS = 300_000.0
"""Standard deviation of a step."""
VAGUE = 3.0
"""Ends' worth that the scatter of all cells counts beside that of one: some have few."""
DENSE = 0.1
"""Share of a sparse matrix that is not 0 beyond which a dense one is multiplied sooner."""
TINY = 1e-14
"""Added to precisions, so that what nothing tells is 0."""

BENDS = KNOTS + 1
FUNCTIONS = 2 + BENDS
"""Of a clock without steps: a line's two, and the bend's."""
PIECES = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6
"""Of the four B-splines that count in a span: the factors of u ** 0 to 3, u from 0 to 1 in it (de
Boor 1978)."""
LINE, BEND, STEP, GPU, LAG, WAVE = range(6)
"""Kinds of unknowns: of a clock; what a rank's GPU is ahead; by which share of a transfer a rank
of a ring ends late; and by which the rank that came last ends later than the one opposite to it."""
VARIANCES = {GPU: 2_000.0**2, LAG: 0.003**2, WAVE: 0.03**2}
"""Of those that are constant, before the calls tell better: ns^2, and shares of transfers."""


@dataclass(frozen=True)
class Step:
    """A step of a clock: between two instances that tie it to others, on the common clock, ns."""

    unit: int
    since: float
    until: float

    @property
    def at(self) -> float:
        """The middle."""
        return (self.since + self.until) / 2


def _splines(x: Floats, second: bool = False) -> tuple[Floats, Ints]:
    """Of the cubic B-splines on KNOTS spans of [-1, 1] the four that are not 0 at each x, or their
    second derivatives, and which these are. SciPy's take longer to import than most runs to read.
    """
    place = (x + 1) * (KNOTS / 2)
    span = np.clip(np.nan_to_num(place), 0, KNOTS - 1).astype(np.int64)
    u = place - span
    powers = [0 * u, 0 * u, 0 * u + 2, 6 * u] if second else [u**0, u, u**2, u**3]
    return np.stack(powers, 1) @ PIECES, span[:, None] + np.arange(4)


def _table(values: Floats, columns: Ints) -> Floats:
    """The same, a column per B-spline."""
    table = np.zeros((len(values), KNOTS + 3))
    table[np.arange(len(values))[:, None], columns] = values
    return table


@cache
def _turn() -> Floats:
    """What each B-spline adds to 1, to x and to each function of the bend: independent coefficients
    of one variance make its second derivative white noise (a smoothing spline as a mixed model;
    Wahba 1990)."""
    x = np.linspace(-1, 1, 40 * KNOTS)
    second = _table(*_splines(x, second=True))
    value, vector = np.linalg.eigh(second.T @ second * (x[1] - x[0]) * (KNOTS / 2) ** 4)
    line = np.arange(-1, KNOTS + 2) * 2 / KNOTS - 1
    return np.column_stack([line**0, line, 0.5 * vector[:, 2:] / np.sqrt(value[2:])])


def functions(when: Floats, span: tuple[float, float]) -> Floats:
    """Return a row per moment: 1, x and the bend's functions, x from -1 to 1 over the span."""
    x = 2 * (when - span[0]) / (span[1] - span[0]) - 1
    bends = _table(*_splines(np.clip(x, -1, 1))) @ _turn()[:, 2:]
    return np.column_stack([np.ones_like(x), x, bends])


Name = tuple[int, int, int]
"""Of an unknown: its kind, whose it is, and of which function it is the multiple, or since when."""


@dataclass
class Model:
    """Ends, clocks and all that is fitted; times in ns. Arrays are per clock (unit), but
    `sigma` and `effect` per cell."""

    span: tuple[float, float]
    unit: Ints
    """Per rank."""
    fixed: Flags
    """Whether a clock is that of a reference."""
    on_gpu: Flags
    """Per rank: whether its timestamps are converted from a GPU's."""
    slope: Floats
    """The rate at which a clock runs as fast as the reference's, beside its first line, in ns over
    half of the span."""
    long: Floats
    """Per cell: how long a transfer takes; lags of a ring grow with it."""
    sigma: Floats
    effect: Floats
    bend_var: Floats
    var: dict[int, float]
    """Variance of each kind of constant."""
    ends: Ends = field(init=False)
    base: Floats = field(init=False)
    """Per end: on the common clock by the first lines."""
    when: Floats = field(init=False)
    """Per instance: about its common end, ascending."""
    steps: list[Step] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Per step: since when and until when it may have been."""
    names: list[Name] = field(default_factory=list)
    theta: Floats = field(default_factory=lambda: np.zeros(0))
    uneven: bool = False
    """Whether instances have scales of their own: not before clocks may step, as what a step does
    would pass for bad instances."""

    # ---- layout ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Lay out the unknowns, after ends, bends or steps have changed; what stays keeps its
        value."""
        known = dict(zip(self.names, self.theta.tolist(), strict=True))
        free, bent = np.flatnonzero(~self.fixed).tolist(), np.flatnonzero(self.bend_var > 0)
        self.names = [(LINE, unit, which) for unit in free for which in (0, 1)]
        self.names += [(BEND, u, f) for u in bent.tolist() for f in range(2, FUNCTIONS)]
        told = np.array([name[1:] for name in self.names], np.int64).reshape(-1, 2)
        self.clock, self.which = told.T
        self.names += [(STEP, step.unit, int(step.since)) for step in self.steps]
        self.of = self.unit[self.ends.rank]
        self.after = [self.when >= step.at for step in self.steps]
        self.fun = functions(self.when, self.span)
        moving, turn = self._clocks()
        told = np.array([known.get(name, 0.0) for name in self.names])
        self.ahead = moving @ (turn @ told)
        parts = [moving]
        for kind, whose, size in self._constants():
            kinds, number = np.unique(whose, return_inverse=True)
            self.names += [(kind, one, 0) for one in kinds[kinds >= 0].tolist()]
            part = csr_matrix((size, (np.arange(len(size)), number)))
            parts.append(part[:, int((kinds < 0).sum()) :])
        self.columns = csr_matrix(hstack(parts))
        self.turn = _beside(turn, self.columns.shape[1] - moving.shape[1])
        self.theta = np.array([known.get(name, 0.0) for name in self.names])
        self.kind = np.array([name[0] for name in self.names], np.int64)
        self.mean = np.zeros(len(self.kind))
        self.mean[: 2 * len(free)][1::2] = self.slope[free]
        self.prior = 1 / np.array([self._variance(name) for name in self.names])

    def _clocks(self) -> tuple[csr_matrix, csr_matrix]:
        """What moves ends with their clocks, a row per end: few columns each, as B-splines reach
        not far, and what the unknowns add to each column."""
        row, of = self.ends.row, self.of
        if self.bend_var.any():
            values, columns = _splines(2 * (self.when - self.span[0]) / np.ptp(self.span) - 1)
            into: Floats = _turn()
        else:
            values, columns = self.fun[:, :2], np.tile([0, 1], (self.ends.rows, 1))
            into = np.eye(2)
        width, each = len(into), values.shape[1]
        columns = columns[row] + width * of[:, None]
        borders = each * np.arange(len(row) + 1)
        size = len(row), width * len(self.fixed)
        moving = csr_matrix((values[row].ravel(), columns.ravel(), borders), size)
        every: csr_matrix = csr_matrix(block_diag([into] * len(self.fixed)))
        turn: csr_matrix = every[:, width * self.clock + self.which]
        stepped = [
            (of == step.unit) & after[row]
            for step, after in zip(self.steps, self.after, strict=True)
        ]
        if stepped:
            moving = csr_matrix(hstack([moving, csr_matrix(np.stack(stepped, 1) * 1.0)]))
        return moving, _beside(turn, len(stepped))

    def _constants(self) -> Iterable[tuple[int, Ints, Floats]]:
        """Per kind of constant: whose it is in each end, or -1, and how much that moves the end."""
        ends = self.ends
        long, probed = self.long[ends.cell][ends.row], ends.probed[ends.row]
        shared = (np.bincount(self.unit)[self.unit] > 1) & self.on_gpu
        ring = ends.ring[ends.row] * self.on_gpu[ends.rank]  # threads get a core when they do
        sort = np.unique(np.c_[self.long[ends.cell], ends.ring], axis=0, return_inverse=True)[1]
        place = ends.block[ends.row] * len(self.unit) + ends.rank
        for kind, whose, told in (
            (GPU, ends.rank, shared[ends.rank] & ~probed),
            (LAG, place, ring > 0),
            (WAVE, sort.ravel()[ends.row], ring > 0),
        ):
            if self.var[kind] > 0 and told.any():
                size = 1.0 if kind == GPU else long * (self._crests() if kind == WAVE else 1.0)
                yield kind, np.where(told, whose, -1), np.where(told, size, 0.0)

    def _crests(self) -> Floats:
        """How near each rank is, along the ring, to the one that came last: 1 there, 0 opposite."""
        ends = self.ends
        begun = ends.start + self.base + self.ahead - ends.local
        order = np.lexsort((begun, ends.row))
        last = ends.place[order[np.r_[np.flatnonzero(np.diff(ends.row)), len(order) - 1]]]
        ring = np.maximum(ends.ring, 2)[ends.row]
        apart = np.abs(ends.place - last[ends.row])
        return np.asarray(1 - np.minimum(apart, ring - apart) / (ring // 2))

    def _variance(self, name: Name) -> float:
        kind, whose, which = name
        if kind == LINE:
            return (DRIFT * (self.span[1] - self.span[0]) / 2) ** 2 if which else np.inf
        if kind == BEND:
            return float(self.bend_var[whose])
        return STEP_NS**2 if kind == STEP else self.var[kind]

    @property
    def coef(self) -> Floats:
        """Per clock: the multiples of its functions."""
        table = np.zeros((len(self.fixed), FUNCTIONS))
        table[self.clock, self.which] = self.theta[: len(self.clock)]
        return table

    @property
    def height(self) -> Floats:
        """Of every step."""
        return np.asarray(self.theta[self.kind == STEP])

    # ---- fit ------------------------------------------------------------------------------------

    def moved(self, kinds: tuple[int, ...]) -> Floats:
        """Ends, moved by unknowns of these kinds."""
        some = np.where(np.isin(self.kind, kinds), self.theta, 0.0)
        return np.asarray(self.base + self.columns @ (self.turn @ some))

    def weigh(self) -> tuple[Floats, Floats]:
        """Distance of every end from the common end, and its weight."""
        x = self.base + self.columns @ (self.turn @ self.theta)
        row, rows = self.ends.row, self.ends.rows
        scale = self.sigma[self.ends.cell][row]
        size = np.bincount(row, minlength=rows) - 1
        calm, mid = np.ones(rows), medians(x, row)
        for _ in range(3):
            rest = x - mid[row]
            square = (rest / scale) ** 2
            near = (NU + 1) / (NU + calm[row] * square)
            if self.uneven:
                calm = (CALM + size) / (CALM + np.bincount(row, near * square, rows))
            weight = calm[row] * near / scale**2
            ahead = np.bincount(row, weight * rest, rows) / np.bincount(row, weight, rows)
            mid = mid + ahead
        self.calm = calm
        return rest - ahead[row], weight

    def _likely(self, rest: Floats) -> Floats:
        """Log likelihood of every instance, but for the scale of its cell."""
        row, calm = self.ends.row, self.calm
        square = (rest / self.sigma[self.ends.cell][row]) ** 2 * calm[row]
        tails = (NU + 1) / 2 * np.bincount(row, np.log1p(square / NU))
        size = np.bincount(row) - 1
        tails += (CALM * calm - (CALM + size) * np.log(calm)) / 2
        return np.asarray(-self.effect[self.ends.cell] * tails)

    def rescale(self, rest: Floats, weight: Floats) -> None:
        """The scale of every cell: the most likely one, drawn a little to that of most ends."""
        cell = self.ends.cell
        of_end, count = cell[self.ends.row], len(self.sigma)
        square = np.bincount(of_end, weight * rest**2 * self.sigma[of_end] ** 2, count)
        free = np.bincount(of_end, minlength=count) - np.bincount(cell, minlength=count)
        vague = np.full(count, VAGUE)
        vague[cell[self.ends.probed]] = 0.0
        found = (square + vague * np.median(self.sigma[of_end]) ** 2) / np.maximum(free + vague, 1)
        self.sigma = np.sqrt(np.maximum(found, FLOOR_NS**2))

    def weighed(self) -> tuple[Floats, Floats]:
        """The same, with new scales, and weights of as many ends as those of a cell are worth."""
        rest, weight = self.weigh()
        self.rescale(rest, weight)
        return rest, weight * self.effect[self.ends.cell][self.ends.row]

    def curvature(self, weight: Floats) -> Floats:
        """Of the log likelihood in all unknowns: products of ends around the means of instances."""
        row, rows = self.ends.row, self.ends.rows
        share = weight / np.sqrt(np.bincount(row, weight, rows))[row]
        means = csr_matrix((share, (row, np.arange(len(row)))), (rows, len(row))) @ self.columns
        each = diags(np.sqrt(weight)) @ self.columns
        return _squared(each, self.turn) - _squared(means, self.turn)

    def settle(self, rounds: int = 25, tolerance: float = 50.0) -> None:
        """Newton's steps until nothing moves by more than `tolerance`, ns."""
        ns = np.where(np.isin(self.kind, (LAG, WAVE)), np.median(self.long), 1.0)
        for turn in range(rounds):
            before = self.sigma
            rest, weight = self.weighed()
            self.hess = self.curvature(weight)
            grad = -(self.turn.T @ (self.columns.T @ (weight * rest)))
            self.right = grad + self.hess @ self.theta
            still = np.abs(np.log(self.sigma / before)).max() < 0.03
            full = cho_factor(self.hess + np.diag(self.prior + TINY))
            step = cho_solve(full, grad - self.prior * (self.theta - self.mean))
            self.theta = self.theta + step
            if still and np.abs(step * ns).max(initial=0) < tolerance and turn > 1:
                break

    def constants(self, rounds: int = 3) -> None:
        """What each GPU is constantly off, the clocks being known: its mean distance from the
        common ends, as much of it as is more than chance, given how far all of them are."""
        self.var = {**self.var, GPU: VARIANCES[GPU]}
        self.prepare()
        mine = np.flatnonzero(self.kind == GPU)
        part = self.columns[:, self.columns.shape[1] - len(mine) :]
        for _ in range(rounds if len(mine) else 0):
            rest, weight = self.weighed()
            known = np.maximum(part.T @ weight, TINY)
            off = self.theta[mine] - part.T @ (weight * rest) / known
            size = max(float(np.mean(off**2) - np.mean(1 / known)), 0.0)
            self.theta[mine] = off * size / (size + 1 / known)

    def pool(self) -> None:
        """Kish's design effect: ends of ranks of one clock, neighbours of a ring, err alike and
        count for fewer. From one instance of a cell to the next: what clocks do does not count."""
        rest, _ = self.weigh()
        ends, cells = self.ends, len(self.sigma)
        cell, place = ends.cell[ends.row], places(ends.cell)[ends.row]
        order = np.lexsort((place, ends.rank, cell))
        late, early = order[1:], order[:-1]
        near = (cell[late] == cell[early]) & (ends.rank[late] == ends.rank[early])
        near &= place[late] == place[early] + 1
        late, change = late[near], (rest[late] - rest[early])[near]
        change = np.clip(change, *np.array([[-2], [2]]) * self.sigma[cell[late]])
        key, group = np.unique(
            ends.row[late] * len(self.fixed) + self.of[late], return_inverse=True
        )
        total = np.bincount(
            ends.cell[key // len(self.fixed)], np.bincount(group, change) ** 2, cells
        )
        own = np.bincount(cell[late], change**2, cells)
        self.effect = 1 / np.maximum(total / np.maximum(own, 1.0), 1.0)

    def evidence(self) -> float:
        """Marginal log likelihood of the ends (Laplace's): it compares steps, bends, variances."""
        rest, _ = self.weigh()
        home, count = self.ends.cell, len(self.sigma)
        free = np.bincount(home, np.bincount(self.ends.row) - 1, count)
        told = self._likely(rest).sum() - (self.effect * free * np.log(self.sigma)).sum()
        known = self.prior > 0
        off = self.theta - self.mean
        prior = np.log(self.prior[known]).sum() - (self.prior * off**2).sum()
        turn = np.log(np.diag(cho_factor(self.hess + np.diag(self.prior + TINY))[0])).sum()
        return float(0.5 * prior - turn + told)


def _beside(turn: csr_matrix, more: int) -> csr_matrix:
    """The matrix, and beside its unknowns more of which each has a column of its own."""
    return csr_matrix(block_diag([turn, identity(more)])) if more else turn


def _squared(matrix: csr_matrix, turn: csr_matrix) -> Floats:
    """The products of columns with each other, of what they are turned into."""
    if matrix.nnz < DENSE * matrix.shape[0] * matrix.shape[1]:
        return np.asarray((turn.T @ (matrix.T @ matrix) @ turn).toarray())
    full = (matrix @ turn).toarray()
    return np.asarray(full.T @ full)
