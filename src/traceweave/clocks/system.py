"""The model of all clocks: its unknowns, weights and scales, and the fit of everything at once.

    end_ki + F(t_k) a_u(i) + sum_j H(t_k - s_j) h_j + g_i + T_c l_gi = T_k + noise

of instance k of cell c and group g, and rank i with clock u. Noise is Student's t with a scale per
cell. T_k is eliminated: what counts of the ends of an instance is how far they lie from their mean.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.sparse import csr_matrix

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import BENDS, FUNCTIONS, Step, functions
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
BINS = 100
"""Stretches of time in which the curvature of the likelihood takes functions for constant."""
STEP_NS = 300_000.0
"""Standard deviation of a step."""
GPU_NS = 2_000.0
"""What a GPU's timestamps are off, and"""
LAG = 0.003
"""by which share of a transfer a rank of a ring ends late, before the calls tell better."""
WAVE = 0.03
"""And by which share the rank that came last ends later than the one opposite to it."""
VAGUE = 3
"""Ends' worth that the scatter of all cells counts beside that of one."""
KINDS = 6
"""Of unknowns: lines, bends, steps, constants of GPUs, lags of ranks, waves."""
TABLE = 20_000_000
"""Numbers that a table of all clocks at all instances holds at most."""
DENSE = 30
"""How many products of a dense matrix take as long as one of a sparse."""
TINY = 1e-14
"""Added to precisions, so that what nothing tells is 0."""


@dataclass
class Model:
    """Ends, clocks and all that is fitted; times in ns. Arrays are per clock (unit), but `gpu` per
    rank and `sigma` and `effect` per cell."""

    ends: Ends
    base: Floats
    """Per end: on the common clock by the first lines."""
    when: Floats
    """Per instance: about its common end, ascending."""
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
    coef: Floats
    gpu: Floats
    long: Floats
    """Per cell: how long a transfer takes; lags of a ring grow with it."""
    sigma: Floats
    effect: Floats
    steps: list[Step] = field(default_factory=list)
    height: Floats = field(default_factory=lambda: np.zeros(0))
    spans: list[tuple[float, float]] = field(default_factory=list)
    """Per step: since when and until when it may have been."""
    bend_var: Floats = field(default_factory=lambda: np.zeros(0))
    gpu_var: float = GPU_NS**2
    lag_var: float = LAG**2
    lag: Floats = field(default_factory=lambda: np.zeros(0))
    wave_var: float = WAVE**2
    wave: Floats = field(default_factory=lambda: np.zeros(0))
    hess: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    right: Floats = field(default_factory=lambda: np.zeros(0))
    mid: Floats | None = None
    last: tuple[Floats, Floats] | None = None
    uneven: bool = False
    """Whether instances have scales of their own: not while steps are looked for, which would pass
    for bad instances."""
    pooled: bool = False
    """Whether only clocks are fitted, of so many ranks that what each of them is constantly off
    comes afterwards."""
    calm: Floats = field(default_factory=lambda: np.zeros(0))
    """Per instance: how much nearer to each other its ends lie than those of its cell, squared."""

    # ---- layout ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Lay out the unknowns, after ends, bends or steps have changed."""
        ends, units = self.ends, len(self.fixed)
        self.fun = functions(self.when, self.span)
        self.of = self.unit[ends.rank]
        bins = int(np.clip(TABLE // units**2, 16, BINS))
        edges = np.sort(np.r_[np.linspace(*self.span, bins + 1)[1:-1], [s.at for s in self.steps]])
        self.bins = np.unique(np.r_[0, np.searchsorted(self.when, edges)])
        self.bins = self.bins[self.bins < len(self.when)]
        self.after = [self.when >= s.at for s in self.steps]
        self.stepping = np.array([step.unit for step in self.steps], np.int64)
        self.stepped = [
            np.flatnonzero((self.of == step.unit) & after[ends.row])
            for step, after in zip(self.steps, self.after, strict=True)
        ]
        probed = ends.probed[ends.row]
        many = np.bincount(self.unit, minlength=units)[self.unit] > 1
        many &= self.on_gpu & (self.gpu_var > 0)
        gpu = np.where(many[ends.rank] & ~probed, ends.rank, -1)
        block = ends.block[ends.row]
        ring = ends.ring[ends.row] * self.on_gpu[ends.rank]  # threads get a core when they do
        lag = np.where((ring == 0) | (self.lag_var == 0), -1, block * len(self.unit) + ends.rank)
        sort = np.unique(np.c_[self.long[ends.cell], ends.ring], axis=0, return_inverse=True)[1]
        wave = np.where((ring > 0) & (self.wave_var > 0), sort.ravel()[ends.row], -1)
        self.gpu_of, gpu = _numbered(gpu)
        self.lag_of, lag = _numbered(lag)
        self.wave_of, wave = _numbered(wave)
        if len(self.lag) != len(lag):
            self.lag = np.zeros(len(lag))
        if len(self.wave) != len(wave):
            self.wave = np.zeros(len(wave))
        self.gpus = gpu
        self.crest = self._crests() if len(wave) else np.zeros(len(ends.rank))
        bent = np.flatnonzero(self.bend_var > 0)
        free = np.flatnonzero(~self.fixed)
        self.kind = np.repeat(
            np.arange(KINDS),
            [2 * len(free), BENDS * len(bent), len(self.steps), len(gpu), len(lag), len(wave)],
        )
        self.clock = np.r_[np.repeat(free, 2), np.repeat(bent, BENDS)]
        self.which = np.r_[np.tile([0, 1], len(free)), np.tile(np.arange(2, FUNCTIONS), len(bent))]
        self.mean = np.zeros(len(self.kind))
        self.mean[: 2 * len(free)][1::2] = self.slope[free]
        self.prior = self.precisions()

    def precisions(self) -> Floats:
        """Inverse variance of every unknown, as variances are now."""
        half = (self.span[1] - self.span[0]) / 2
        lines = np.tile([0.0, 1 / (DRIFT * half) ** 2], int((~self.fixed).sum()))
        bends = np.repeat(1 / self.bend_var[self.bend_var > 0], BENDS)
        counts = np.bincount(self.kind, minlength=KINDS)
        tail = [
            np.full(count, 1 / variance if count else 0.0)
            for count, variance in zip(
                counts[2:],
                (STEP_NS**2, self.gpu_var or 1.0, self.lag_var or 1.0, self.wave_var or 1.0),
                strict=True,
            )
        ]
        return np.concatenate([lines, bends, *tail])

    @property
    def theta(self) -> Floats:
        """All unknowns in one row."""
        heights = self.coef[self.clock, self.which]
        return np.concatenate([heights, self.height, self.gpu[self.gpus], self.lag, self.wave])

    @theta.setter
    def theta(self, values: Floats) -> None:
        edges = np.cumsum(np.bincount(self.kind, minlength=KINDS))
        self.coef = np.zeros_like(self.coef)
        self.coef[self.clock, self.which] = values[: edges[1]]
        self.height, gpu, self.lag, self.wave = (
            values[a:b] for a, b in pairwise(edges[1:].tolist())
        )
        self.gpu = np.zeros_like(self.gpu)
        self.gpu[self.gpus] = gpu

    def copied(self) -> Model:
        """Return a model that can be changed without changing this one."""
        other = copy.copy(self)
        other.steps, other.bend_var = list(self.steps), self.bend_var.copy()
        other.sigma = self.sigma.copy()
        return other

    def united(self) -> Model:
        """Return a model of the clocks alone: ends of ranks of one clock are one, less what GPUs
        are constantly off and who ends last, and only what ties clocks to each other is seen."""
        one, lead = self.copied(), np.unique(self.unit, return_index=True)[1]
        tying = self.ends.tying(self.unit)
        late = np.r_[self.wave, 0.0][self.wave_of] * self.crest
        local = self.base + late * self.long[self.ends.cell][self.ends.row]
        local += np.where(self.gpu_of >= 0, self.gpu[self.ends.rank], 0.0)
        some = self.ends.of_rows(tying)
        one.ends = some.united(self.unit, lead, local[tying[self.ends.row]])
        one.base, one.when = one.ends.local, self.when[tying]
        one.gpu_var, one.wave_var, one.gpu = 0.0, 0.0, np.zeros_like(self.gpu)
        one.lag = np.zeros(0)
        one.mid, one.last, one.calm = None, None, np.zeros(0)
        one.prepare()
        return one

    # ---- fit ------------------------------------------------------------------------------------

    def moved(self) -> Floats:
        """Ends on the common clock, without lags."""
        row, of = self.ends.row, self.of
        used = np.flatnonzero(self.coef.any(axis=0))
        if self.ends.rows * len(self.fixed) < TABLE:
            table = self.fun[:, used] @ self.coef[:, used].T
            shift = table.ravel()[row * len(self.fixed) + of]
        else:
            shift = np.zeros(len(row))
            for f in used:
                shift += self.fun[row, f] * self.coef[of, f]
        for some, height in zip(self.stepped, self.height, strict=True):
            shift[some] += height
        constant = np.where(self.gpu_of >= 0, self.gpu[self.ends.rank], 0.0)
        return np.asarray(self.base + shift + constant)

    def _crests(self) -> Floats:
        """How near each rank is, along the ring, to the one that came last: 1 there, 0 opposite."""
        ends = self.ends
        begun = ends.start + self.moved() - ends.local
        order = np.lexsort((begun, ends.row))
        last = ends.place[order[np.r_[np.flatnonzero(np.diff(ends.row)), len(order) - 1]]]
        ring = np.maximum(ends.ring, 2)[ends.row]
        apart = np.abs(ends.place - last[ends.row])
        return np.asarray(1 - np.minimum(apart, ring - apart) / (ring // 2))

    def _without_lags(self) -> Floats:
        """Ends on the common clock, less by how much later than others they are."""
        size_of = self.long[self.ends.cell][self.ends.row]
        lags = np.r_[self.lag, 0.0][self.lag_of] + np.r_[self.wave, 0.0][self.wave_of] * self.crest
        return np.asarray(self.moved() + size_of * lags)

    def weigh(self) -> tuple[Floats, Floats]:
        """Distance of every end from the common end, and its weight."""
        row = self.ends.row
        x = self._without_lags()
        if self.mid is None or self.last is None:
            mid = medians(x, row)
        else:
            weight, before = self.last
            mid = self.mid + np.bincount(row, weight * (x - before)) / np.bincount(row, weight)
        calm = self.calm if len(self.calm) == self.ends.rows else np.ones(self.ends.rows)
        rest, weight, self.mid, self.calm = self._around(x, mid, calm)
        self.last = weight, x
        return rest, weight

    def _around(
        self, x: Floats, mid: Floats, calm: Floats
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Distances of ends from the common ends near `mid`, weights, common ends, and calm."""
        row, rows = self.ends.row, self.ends.rows
        scale = self.sigma[self.ends.cell][row]
        size = np.bincount(row, minlength=rows) - 1
        calm = calm if self.uneven else np.ones(rows)
        for _ in range(3):
            rest = x - mid[row]
            square = (rest / scale) ** 2
            near = (NU + 1) / (NU + calm[row] * square)
            if self.uneven:
                calm = (CALM + size) / (CALM + np.bincount(row, near * square, rows))
            weight = calm[row] * near / scale**2
            ahead = np.bincount(row, weight * rest, rows) / np.bincount(row, weight, rows)
            mid = mid + ahead
        return rest - ahead[row], weight, mid, calm

    def _likely(self, rest: Floats, calm: Floats) -> Floats:
        """Log likelihood of every instance, but for the scale of its cell."""
        row = self.ends.row
        square = (rest / self.sigma[self.ends.cell][row]) ** 2 * calm[row]
        tails = (NU + 1) / 2 * np.bincount(row, np.log1p(square / NU))
        size = np.bincount(row) - 1
        tails += (CALM * calm - (CALM + size) * np.log(calm)) / 2
        return np.asarray(-self.effect[self.ends.cell] * tails)

    def rescale(self, rest: Floats, weight: Floats) -> None:
        """The scale of every cell: the most likely one, drawn a little to that of all."""
        cell = self.ends.cell
        of_end, count = cell[self.ends.row], len(self.sigma)
        square = np.bincount(of_end, weight * rest**2 * self.sigma[of_end] ** 2, count)
        free = np.bincount(of_end, minlength=count) - np.bincount(cell, minlength=count)
        probed = np.zeros(count, np.bool_)
        probed[cell] = self.ends.probed
        order = np.argsort(self.sigma)
        share = np.cumsum((free * ~probed)[order])
        typical = self.sigma[order[np.searchsorted(share, share[-1] / 2)]]
        vague = np.where(probed, 0, VAGUE)
        found = (square + vague * typical**2) / np.maximum(free + vague, 1)
        self.sigma = np.sqrt(np.maximum(found, FLOOR_NS**2))

    def system(self) -> tuple[Floats, Floats]:
        """Curvature and gradient of the log likelihood; scales on the way."""
        rest, weight = self.weigh()
        self.rescale(rest, weight)
        weight = weight * self.effect[self.ends.cell][self.ends.row]
        fun = self.flat()
        lap, half, corner = self.sums(weight)
        size, moving = len(self.kind), len(self.clock) + len(self.steps)
        hess = np.zeros((size, size))
        hess[:moving, :moving] = self.of_clocks(fun, lap)
        hess[:moving, moving:] = self._crossing(fun, half)
        hess[moving:, :moving] = hess[:moving, moving:].T
        hess[moving:, moving:] = corner
        return hess, self._gradient(weight * rest)

    def _gradient(self, pull: Floats) -> Floats:
        row, units, moving = self.ends.row, len(self.fixed), len(self.clock) + len(self.steps)
        grad = np.zeros(len(self.kind))
        count = FUNCTIONS if self.bend_var.any() else 2
        pulls = csr_matrix((pull, (self.of, row)), (units, self.ends.rows))
        grad[: len(self.clock)] = -np.asarray(pulls @ self.fun[:, :count])[self.clock, self.which]
        grad[len(self.clock) : moving] = [-pull[some].sum() for some in self.stepped]
        consts, columns = self._consts()
        for place, x in columns:
            grad[moving:] -= np.bincount(place, pull * x, consts + 1)[:consts]
        return grad

    def flat(self) -> Floats:
        """Functions as the curvature takes them: a row per stretch of time."""
        size = np.diff(np.r_[self.bins, self.ends.rows])
        return np.asarray(np.add.reduceat(self.fun, self.bins) / size[:, None])

    def sums(self, weight: Floats) -> tuple[Floats, Floats, Floats]:
        """Weighted products of ends around their means, summed over instances: of clocks with each
        other and with what does not change, both per stretch of time, and of the latter."""
        row, rows, units, bins = self.ends.row, self.ends.rows, len(self.fixed), len(self.bins)
        consts, columns = self._consts()
        share = weight / np.sqrt(np.bincount(row, weight, rows))[row]
        clock = np.repeat(np.arange(bins), np.diff(np.r_[self.bins, rows]))[row] * units + self.of
        # most calls are of few clocks, some of all
        each = np.bincount(row, minlength=rows) * (1.0 + len(columns))
        few = (each**2).sum() * DENSE < rows * float(units + consts) ** 2
        squares = self._sparse if few else self._dense
        lap, half, corner = squares(share, clock, consts + 1, columns)
        lap[np.arange(bins * units), np.tile(np.arange(units), bins)] += np.bincount(
            clock, weight, bins * units
        )
        for place, x in columns:
            at = clock * (consts + 1) + place
            half += np.bincount(at, weight * x, half.size).reshape(half.shape)
            for other, y in columns:
                both = np.bincount(place * (consts + 1) + other, weight * x * y, corner.size)
                corner += both.reshape(corner.shape)
        lap, half = lap.reshape(bins, units, units), half.reshape(bins, units, -1)
        return lap, half[:, :, :consts], corner[:consts, :consts]

    def _sparse(
        self, share: Floats, clock: Ints, consts: int, columns: list[tuple[Ints, Floats]]
    ) -> tuple[Floats, Floats, Floats]:
        """What means take from products: of what clocks, each in its stretch of time, and constants
        weigh in each instance."""
        row, rows, width = self.ends.row, self.ends.rows, len(self.bins) * len(self.fixed)
        clocks = csr_matrix((share, (row, clock)), (rows, width))
        place, x = (np.concatenate(column) for column in zip(*columns, strict=True))
        weighed = np.tile(share, len(columns)) * x
        const = csr_matrix((weighed, (np.tile(row, len(columns)), place)), (rows, consts))
        both = (clocks.T @ clocks).tocoo()
        lap = np.zeros((width, len(self.fixed)))
        lap[both.row, both.col % len(self.fixed)] = -both.data
        return lap, -(clocks.T @ const).toarray(), -(const.T @ const).toarray()

    def _dense(
        self, share: Floats, clock: Ints, consts: int, columns: list[tuple[Ints, Floats]]
    ) -> tuple[Floats, Floats, Floats]:
        """The same, of calls that many clocks share."""
        row, rows, units = self.ends.row, self.ends.rows, len(self.fixed)
        width = len(self.bins) * units
        lap, half = np.empty((width, units)), np.empty((width, consts))
        const = np.zeros((rows, consts))
        for place, x in columns:
            added = np.bincount(row * consts + place, share * x, const.size)
            const += added.reshape(const.shape)
        every = np.bincount(row * units + self.of, share, rows * units).reshape(rows, units)
        for b, (low, high) in enumerate(pairwise([*self.bins.tolist(), rows])):
            mine, some = slice(b * units, (b + 1) * units), every[low:high]
            lap[mine], half[mine] = -(some.T @ some), -(some.T @ const[low:high])
        return lap, half, -(const.T @ const)

    def _consts(self) -> tuple[int, list[tuple[Ints, Floats]]]:
        """The number of unknowns that do not change with time, and which of them, by how much, move
        each end; the last, one more, is none."""
        count = len(self.gpus) + len(self.lag) + len(self.wave)
        long = self.long[self.ends.cell][self.ends.row]
        columns, first = [], 0
        for place, size, many in (
            (self.gpu_of, np.ones_like(long), len(self.gpus)),
            (self.lag_of, long, len(self.lag)),
            (self.wave_of, long * self.crest, len(self.wave)),
        ):
            if many:
                columns.append(
                    (np.where(place >= 0, place + first, count), np.where(place >= 0, size, 0.0))
                )
            first += many
        return count, columns or [(np.zeros(len(long), np.int64), np.zeros(len(long)))]

    def of_clocks(self, fun: Floats, lap: Floats) -> Floats:
        """The curvature in lines, bends and steps."""
        bins, count = fun.shape
        used = count if self.bend_var.any() else 2
        fun = fun[:, :used]
        units = lap.shape[1]
        pairs = (fun[:, :, None] * fun[:, None, :]).reshape(bins, -1).T @ lap.reshape(bins, -1)
        pairs = pairs.reshape(used, used, units, units).transpose(2, 0, 3, 1)
        n, steps = len(self.clock), len(self.steps)
        result = np.zeros((n + steps, n + steps))
        place = self.clock * used + self.which
        result[:n, :n] = pairs.reshape(units * used, -1)[np.ix_(place, place)]
        starts = np.searchsorted(self.when[self.bins], [s.at for s in self.steps])
        for j, unit in enumerate(self.stepping):
            moved = lap[:, :, unit]
            beside = fun[starts[j] :].T @ moved[starts[j] :]
            result[n + j, :n] = result[:n, n + j] = beside[self.which, self.clock]
            late = np.vstack([np.cumsum(moved[::-1], axis=0)[::-1], np.zeros(units)])
            result[n + j, n:] = late[np.maximum(starts, starts[j]), self.stepping]
        return result

    def _crossing(self, fun: Floats, half: Floats) -> Floats:
        """The curvature between clocks and what does not change with time."""
        bins, units, consts = half.shape
        result = np.zeros((len(self.clock) + len(self.steps), consts))
        every = (fun.T @ half.reshape(bins, units * consts)).reshape(fun.shape[1], units, consts)
        result[: len(self.clock)] = every[self.which, self.clock]
        starts = np.searchsorted(self.when[self.bins], [s.at for s in self.steps])
        for j, unit in enumerate(self.stepping):
            result[len(self.clock) + j] = half[starts[j] :, unit].sum(axis=0)
        return result

    def settle(self, rounds: int = 25, tolerance: float = 50.0) -> None:
        """Newton's steps until nothing moves by more than `tolerance`, ns."""
        for turn in range(rounds):
            before, theta = self.sigma, self.theta
            self.hess, grad = self.system()
            self.right = grad + self.hess @ theta
            still = np.abs(np.log(self.sigma / before)).max() < 0.03
            full = self.hess + np.diag(self.prior + TINY)
            step = cho_solve(cho_factor(full), grad - self.prior * (theta - self.mean))
            self.theta = theta + step
            step = np.where(self.kind < 4, step, step * np.median(self.long))
            if still and np.abs(step).max(initial=0) < tolerance and turn > 1:
                break

    def constants(self, rounds: int = 3) -> None:
        """What each GPU is constantly off, the clocks being known: its mean distance from the
        common ends, as much of it as is more than chance, given how far all of them are."""
        many = (np.bincount(self.unit)[self.unit] > 1) & self.on_gpu
        for _ in range(rounds):
            rest, weight = self.weigh()
            self.rescale(rest, weight)
            weight = weight * self.effect[self.ends.cell][self.ends.row]
            weight[self.ends.probed[self.ends.row]] = 0.0
            known = np.bincount(self.ends.rank, weight, len(self.unit))
            off = -np.bincount(self.ends.rank, weight * rest, len(self.unit)) / np.maximum(
                known, TINY
            )
            there = many & (known > 0)
            if not there.any():
                return
            size = float(np.mean(((self.gpu + off) ** 2)[there]) - np.mean(1 / known[there]))
            share = max(size, 0.0) / (max(size, 0.0) + 1 / np.maximum(known, TINY))
            self.gpu = np.where(there, share * (self.gpu + off), 0.0)
            self.gpu_of = np.where(
                there[self.ends.rank] & ~self.ends.probed[self.ends.row], self.ends.rank, -1
            )

    def changes(self, rest: Floats) -> tuple[Ints, Floats]:
        """Ends whose rank was in the instance of their cell before as well, and by how much what is
        left of them differs from then."""
        ends = self.ends
        cell, place = ends.cell[ends.row], places(ends.cell)[ends.row]
        order = np.lexsort((place, ends.rank, cell))
        late, early = order[1:], order[:-1]
        near = (cell[late] == cell[early]) & (ends.rank[late] == ends.rank[early])
        near &= place[late] == place[early] + 1
        return late[near], (rest[late] - rest[early])[near]

    def pool(self) -> None:
        """Kish's design effect: ends of ranks of one clock, neighbours of a ring, err alike and
        count for fewer. From one instance of a cell to the next: what clocks do does not count."""
        rest, _ = self.weigh()
        ends, units = self.ends, len(self.fixed)
        late, change = self.changes(rest)
        if not len(late):
            return
        of_cell = ends.cell[ends.row[late]]
        size = np.zeros(len(self.sigma))
        kinds, number = np.unique(of_cell, return_inverse=True)
        size[kinds] = 2 * medians(np.abs(change), number) + 1
        change = np.clip(change, -2 * size[of_cell], 2 * size[of_cell])
        key, group = np.unique(ends.row[late] * units + self.of[late], return_inverse=True)
        count, total, squares = (
            np.bincount(group, v) for v in (np.ones_like(change), change, change**2)
        )
        home = ends.cell[key // units]
        pairs, alike, own, ends_in = (
            np.bincount(home, v, len(self.sigma))
            for v in (count * (count - 1), total**2 - squares, squares, count)
        )
        share = alike / np.maximum(pairs, 1) / np.maximum(own / np.maximum(ends_in, 1), 1.0)
        self.effect = 1 / (1 + np.maximum(share, 0) * pairs / np.maximum(ends_in, 1))

    def evidence(self) -> float:
        """Marginal log likelihood of the ends (Laplace's): it compares steps, bends, variances."""
        rest, _ = self.weigh()
        home, count = self.ends.cell, len(self.sigma)
        free = np.bincount(home, np.bincount(self.ends.row) - 1, count)
        told = self._likely(rest, self.calm).sum() - (self.effect * free * np.log(self.sigma)).sum()
        known = self.prior > 0
        off = self.theta - self.mean
        prior = np.log(self.prior[known]).sum() - (self.prior * off**2).sum()
        turn = np.log(np.diag(cho_factor(self.hess + np.diag(self.prior + TINY))[0])).sum()
        return float(0.5 * prior - turn + told)

    def covariance(self) -> Floats:
        """Of all unknowns, given variances and scales."""
        return inverse(self.hess + np.diag(self.prior + TINY))


def inverse(matrix: Floats) -> Floats:
    """Of what is symmetric and positive."""
    factor, lower = cho_factor(matrix)
    upper = np.triu(dpotri(factor, lower)[0])
    return np.asarray(upper + np.triu(upper, 1).T)


def _numbered(of: Ints) -> tuple[Ints, Ints]:
    """Numbers from 0 of what is not negative (else -1), and what each stands for."""
    kinds, number = np.unique(of, return_inverse=True)
    absent = int((kinds < 0).sum())
    return np.asarray(number - absent), kinds[absent:]
