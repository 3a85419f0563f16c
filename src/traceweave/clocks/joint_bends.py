"""The bends of all clusters at once, from the ends of their collectives: smooth wander and steps.

Ends only tell what clusters differ by, so nobody's bend is looked for alone. Wander is a curve of
lines that turn at knots common to all clusters, from knot to knot by not much more or less: by how
much, the likelihood of the ends says for each (a random walk integrated twice). What all do
together nobody sees; the prior keeps it smallest. The equations are banded, a band as wide as three
knots of all clusters; steps border them. Steps are searched for beside curves of which the turns
are small themselves, which are not free to bend where many may have stepped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.knots import Between, KnotSums
from traceweave.clocks.scatter import measure_scatter
from traceweave.medians import row_medians, running_median

REACH = 4
"""Knots whose values one equation may hold together."""
ROUNDS = 12
"""Rounds in which weights and the size of wander are found."""
FIRST_NS = 100_000.0
"""How far a clock may wander before anything is known of it."""
STRAIGHT_NS = 100.0
"""The same for a clock that is found not to."""
LEAST_NS = 2_000.0
"""The least wander that is looked for."""
WORTH_NS = 10_000.0
SURE = 6.0
"""A curve must go farther from a line than this, and than so many of its standard errors."""
FLOOR_NS = 500.0
"""Ends are never trusted to better than this."""
RATE = 3e-4
"""Standard deviation of a clock's rate between two knots: what is faster is a step."""
RATES = 10
"""The rates between however many knots say together no more than those between so many: a clock
that is fast for a while is so from knot to knot, and more knots do not make that less likely."""
POOLED = 0.05
"""So many turns of each cluster's are as large as those of all: what all do together is nobody's,
so one that wanders as they do may seem not to."""
PROBES = 16
"""Random vectors that estimate a trace of the inverse."""
RIDGE = 1e-7
"""Share of what ends say of a knot that holds it to 0: the place of all clusters is nobody's."""
ROUNDING = 1e-12
"""Share of the diagonal that rounding may take from it."""


@dataclass(frozen=True)
class Rows:
    """Instances of one or several blocks over the same clusters, in the order of time."""

    clusters: Ints
    moment: Floats
    """When each instance ended on the common clock, ns."""
    late: Floats
    """Per instance and rank: how late its end is, ns, from any common time; NaN if absent."""
    of_rank: Ints
    """Per rank: which of the clusters is its."""
    sort: Ints
    """Instances of one number scatter alike."""

    def per_cluster(self, of_ends: Floats | Flags) -> Floats:
        """Sums over the ranks of each cluster, of what is said per instance and rank."""
        return np.asarray(of_ends @ (self.of_rank[:, None] == np.arange(len(self.clusters))))


@dataclass(frozen=True)
class Moment:
    """When a cluster stepped, on the common clock: between two of its anchors."""

    cluster: int
    since: float
    until: float


@dataclass
class Joint:
    """Curves and steps of all clusters; `solve` finds them."""

    tables: list[Rows]
    clusters: int
    knots: Floats
    """ns on the common clock."""
    steps: list[Moment] = field(default_factory=list)
    values: Floats = field(init=False)
    """Per knot and cluster, ns."""
    heights: Floats = field(init=False)
    """Per step, ns."""
    height_errors: Floats = field(init=False)
    turning: Floats = field(init=False)
    """Per cluster: variance of a turn, for a knot at unit distance from the next."""
    straight: Flags = field(init=False)
    """Per cluster: whether its curve is no more than a line's noise."""
    curving: Floats = field(init=False)
    """Per cluster: variance of how turns change, for knots at unit distance; inf: by anything."""
    rests: list[Floats] = field(init=False)
    """Per table: how late each cluster's ends are in the weighted mean; 0 if absent."""
    weights: list[Floats] = field(init=False)
    """Per table: weight of each of those."""

    def __post_init__(self) -> None:
        self.values = np.zeros((len(self.knots), self.clusters))
        self.heights = np.zeros(len(self.steps))
        self.turning = np.full(self.clusters, _turning(FIRST_NS, len(self.knots)))
        self.curving = np.full(self.clusters, np.inf)
        self._weigh_anew()
        self._between = [Between(rows.moment, self.knots) for rows in self.tables]

    def add(self, step: Moment) -> None:
        """Let a cluster step there too."""
        self.steps.append(step)
        self.heights = np.append(self.heights, 0.0)

    def drop(self, kept: list[int]) -> None:
        """Keep these steps alone."""
        self.steps = [self.steps[n] for n in kept]
        self.heights = self.heights[kept]

    def settle(self) -> None:
        """Find weights, curves, steps and the size of wander in turns.

        Weights begin anew: ends that a step which was not known yet has put far off would never
        count again.
        """
        self._weigh_anew()
        self.turning[:] = np.inf
        self.curving[:] = _curving(FIRST_NS, len(self.knots))
        for _ in range(ROUNDS):
            self._learn(self.solve())
            self._weigh()
        self.solve()
        least = np.maximum(WORTH_NS, SURE * self.curve_errors().max(axis=0))
        self.straight = np.asarray(self._strays() < least)
        if self.straight.any():
            self.turning[self.straight] = _turning(STRAIGHT_NS, len(self.knots))
            self.curving[self.straight] = np.inf
            for _ in range(3):
                self.solve()
                self._weigh()
            self.solve()

    def _strays(self) -> Floats:
        """How far each cluster's curve strays from a line."""
        x = (self.knots - self.knots.mean()) / max(float(np.ptp(self.knots)), 1.0)
        rest = self.values - self.values.mean(axis=0)
        rest = rest - x[:, None] * (x @ rest) / float(x @ x)
        return np.asarray(np.abs(rest).max(axis=0))

    def noise(self) -> Floats:
        """Standard deviation of what a single instance says of each cluster, ns."""
        found = np.full(self.clusters, np.inf)
        for number in range(self.clusters):
            weights = [
                weight[:, rows.clusters == number].ravel()
                for rows, weight in zip(self.tables, self.weights, strict=True)
            ]
            said = np.concatenate(weights)
            if (said > 0).any():
                found[number] = 1 / np.sqrt(np.median(said[said > 0]))
        return found

    def straightened(self, number: int) -> Floats:
        """The rests of a table with what its clusters' bends add."""
        return self.rests[number] + self._added(number)

    def _added(self, number: int) -> Floats:
        """What bends add to each instance of a table's clusters."""
        rows, between = self.tables[number], self._between[number]
        share = between.share[:, None]
        curve = self.values[between.left] * (1 - share) + self.values[between.left + 1] * share
        result = curve[:, rows.clusters]
        for step, height in zip(self.steps, self.heights, strict=True):
            column = np.flatnonzero(rows.clusters == step.cluster)
            result[:, column] += height * made(rows.moment, step)[:, None]
        return np.asarray(result)

    def curve(self, cluster: int, moments: Floats) -> Floats:
        """What a cluster's curve adds at these moments of the common clock, ns."""
        return np.interp(moments, self.knots, self.values[:, cluster])

    def solve(self) -> tuple[Floats, Floats, Floats]:
        """Find curves and steps under the weights as they are; return the band's factor, what
        steps add through it, and the covariance of steps."""
        # slow to import, and most runs have no use for it
        from scipy.linalg import cho_solve_banded, cholesky_banded

        count = self.clusters
        sums = KnotSums(len(self.knots), count, len(self.steps))
        corner, edge = np.zeros((len(self.steps),) * 2), np.zeros(len(self.steps))
        for number in range(len(self.tables)):
            self._add_rows(number, sums, corner, edge)
        band, right = sums.band(REACH * count), sums.right.ravel()
        border = sums.border.reshape(len(right), -1)
        band[0] = (1 + RIDGE) * band[0] + 1e-3 * RIDGE * band[0].mean()
        self._add_prior(band)
        band[0] *= 1 + ROUNDING
        factor = cholesky_banded(band, lower=True, check_finite=False, overwrite_ab=True)
        through = cho_solve_banded((factor, True), border, check_finite=False)
        alone = cho_solve_banded((factor, True), right, check_finite=False)
        rest = corner - border.T @ through
        rest[np.diag_indices(len(rest))] += RIDGE * corner.diagonal() + 1e-30
        spread = np.asarray(np.linalg.inv(rest) if len(rest) else rest, dtype=np.float64)
        self.heights = spread @ (edge - border.T @ alone)
        self.height_errors = np.sqrt(np.maximum(spread.diagonal(), 0.0))
        self.values = (alone - through @ self.heights).reshape(-1, count)
        return factor, through, spread

    def _add_rows(self, number: int, sums: KnotSums, corner: Floats, edge: Floats) -> None:
        rows, weight, rest = self.tables[number], self.weights[number], self.rests[number]
        between, members = self._between[number], rows.clusters
        total = weight.sum(axis=1, keepdims=True)
        part = weight / np.maximum(total, 1e-300)
        pull = weight * (np.sum(part * rest, axis=1, keepdims=True) - rest)
        sums.add(between, members, weight, part, pull)
        columns = [
            (n, members == step.cluster, made(rows.moment, step))
            for n, step in enumerate(self.steps)
            if step.cluster in members
        ]
        for n, mine, share_made in columns:
            own = np.where(mine, weight, 0.0)
            moved = own - weight * np.sum(part * mine, axis=1, keepdims=True)
            moved *= share_made[:, None]
            sums.add_border(between, members, n, moved)
            edge[n] += float(np.sum(pull[:, mine] * share_made[:, None]))
            for m, theirs, their_made in columns:
                corner[n, m] += float(np.sum(moved[:, theirs] * their_made[:, None]))

    def _priors(self) -> list[tuple[Floats, Floats, Floats]]:
        """What curves should be small in, each as: per place its share of each knot from there on,
        how far it reaches, and its variance per cluster."""
        rates = np.full(self.clusters, RATE**2)
        return [
            (*_rates(self.knots), rates),
            (*_turns(self.knots), self.turning),
            (*_curvings(self.knots), self.curving),
        ]

    def _add_prior(self, band: Floats) -> None:
        """Turns at knots are small, or how they change."""
        count = self.clusters
        for shares, reach, variance in self._priors():
            for knot, share in enumerate(shares):
                precision = 1 / (variance * reach[knot])
                for a in range(len(share)):
                    for b in range(a + 1):
                        there = (knot + b) * count + np.arange(count)
                        band[(a - b) * count, there] += share[a] * share[b] * precision

    def _weigh_anew(self) -> None:
        """Weights from how far ends lie from those just before and after, whatever clocks do."""
        self.rests, self.weights = [], []
        for rows in self.tables:
            rest = rows.late - row_medians(rows.late)
            for column in rest.T:
                known = np.isfinite(column)
                if known.any():
                    column[known] -= running_median(column[known])
            mean, weight = _of_clusters(rows, _weights(rows, rest))
            self.rests.append(mean)
            self.weights.append(weight)

    def _weigh(self) -> None:
        """Weights from how far ends lie from the middle of their instance."""
        for number, rows in enumerate(self.tables):
            weight, straight = self.weights[number], self.straightened(number)
            total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
            middle = np.sum(weight * straight, axis=1, keepdims=True) / total
            rest = rows.late + self._added(number)[:, rows.of_rank] - middle
            self.rests[number], self.weights[number] = _of_clusters(rows, _weights(rows, rest))

    def _learn(self, solved: tuple[Floats, Floats, Floats]) -> None:
        """Bring the size of each cluster's wander nearer to the likeliest (MacKay's steps)."""
        shares, reach = _curvings(self.knots)
        if not len(shares):
            return
        from scipy.linalg import cho_solve_banded

        factor, through, spread = solved
        rng = np.random.default_rng(0)
        count, places, width = self.clusters, len(shares), shares.shape[1]
        probe = rng.choice([-1.0, 1.0], (places, count, PROBES)) / np.sqrt(reach)[:, None, None]
        load = np.zeros((len(self.knots), count, PROBES))
        for a in range(width):
            load[a : a + places] += shares[:, a, None, None] * probe
        flat = load.reshape(-1, PROBES)
        answer = cho_solve_banded((factor, True), flat, check_finite=False)
        answer += through @ (spread @ (through.T @ flat))
        answer = answer.reshape(load.shape)
        seen = sum(shares[:, a, None, None] * answer[a : a + places] for a in range(width))
        trace = np.sum(probe * seen, axis=(0, 2)) / PROBES
        found = sum(shares[:, a, None] * self.values[a : a + places] for a in range(width))
        square = np.sum(np.asarray(found) ** 2 / reach[:, None], axis=0)
        known = places - trace / self.curving
        least, most = (_curving(size, len(self.knots)) for size in (LEAST_NS, 100 * FIRST_NS))
        known = np.maximum(known, 0.0)
        pooled = square.sum() / max(float(known.sum()), 1.0)
        likely = (square + POOLED * pooled + 0.02 * self.curving) / (known + POOLED + 0.02)
        self.curving = np.clip(likely, least, most)

    def curve_errors(self) -> Floats:
        """Standard error of each cluster's curve, the others' being known."""
        precision = np.zeros((self.clusters, len(self.knots), len(self.knots)))
        for rows, weight, between in zip(self.tables, self.weights, self._between, strict=True):
            left, share = between.left, between.share
            total = np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
            own = weight - weight**2 / total
            for a, first in ((0, 1 - share), (1, share)):
                for b, second in ((0, 1 - share), (1, share)):
                    for column, cluster in enumerate(rows.clusters.tolist()):
                        value = own[:, column] * first * second
                        np.add.at(precision[cluster], (left + a, left + b), value)
        said = precision.diagonal(axis1=1, axis2=2).mean(axis=1)
        # nothing may be said of a cluster that shares no instance with others
        said = np.maximum(said, 1e-3 * said.mean())
        precision += RIDGE * said[:, None, None] * np.eye(len(self.knots))
        for shares, reach, variance in self._priors():
            for knot, share in enumerate(shares):
                near = knot + np.arange(len(share))
                place = np.ix_(np.arange(self.clusters), near, near)
                precision[place] += np.outer(share, share) / (variance * reach[knot])[:, None, None]
        diagonal = np.arange(len(self.knots))
        precision[:, diagonal, diagonal] *= 1 + ROUNDING
        inverse = np.linalg.inv(precision).diagonal(axis1=1, axis2=2)
        return np.asarray(np.sqrt(np.maximum(inverse, 0.0)).T)


def _rates(knots: Floats) -> tuple[Floats, Floats]:
    """Per two neighbouring knots, what the values at them make of the rate between, and how many
    rates have one's say."""
    gap = np.diff(knots)
    shares = np.column_stack([-1 / gap, 1 / gap])
    return shares, np.full(len(gap), max(len(gap) / RATES, 1.0))


def _turns(knots: Floats) -> tuple[Floats, Floats]:
    """Per inner knot, what the values at it and its neighbours make of the turn there, and half the
    time between those; time in spans."""
    scale = max(float(np.ptp(knots)), 1.0)
    gap = np.diff(knots) / scale
    shares = np.column_stack([1 / gap[:-1], -1 / gap[:-1] - 1 / gap[1:], 1 / gap[1:]])
    return shares, np.asarray((gap[1:] + gap[:-1]) / 2)


def _curvings(knots: Floats) -> tuple[Floats, Floats]:
    """Per two neighbouring inner knots, what the values at them and their neighbours make of the
    change from turn to turn, and the time between them."""
    turns, reach = _turns(knots)
    bent = turns / reach[:, None]
    shares = np.zeros((max(len(bent) - 1, 0), 4))
    shares[:, :3] -= bent[:-1]
    shares[:, 1:] += bent[1:]
    return shares, np.asarray(np.diff(knots)[1:-1] / max(float(np.ptp(knots)), 1.0))


def _turning(size_ns: float, knots: int) -> float:
    """Variance of turns of a clock that wanders so far, in a sine once over the span."""
    return (4 * np.pi**2 * size_ns) ** 2 / max(knots, 1)


def _curving(size_ns: float, knots: int) -> float:
    """The same of how turns change."""
    return (8 * np.pi**3 * size_ns) ** 2 / max(knots, 1)


def made(moment: Floats, step: Moment) -> Floats:
    """How much of a step has been made at each moment."""
    return 0.5 * (moment > step.since) + 0.5 * (moment >= step.until)


def _weights(rows: Rows, rest: Floats) -> Floats:
    """Weight of each end, given how far it lies from where it should; 0 where absent."""
    result = np.zeros_like(rest)
    for sort in np.unique(rows.sort):
        here = rows.sort == sort
        result[here] = measure_scatter(rest[here], FLOOR_NS).weights(rest[here])
    return result


def _of_clusters(rows: Rows, weight: Floats) -> tuple[Floats, Floats]:
    """How late the ends of each cluster are in the mean, 0 if absent, and what all weigh."""
    total = rows.per_cluster(weight)
    mean = rows.per_cluster(weight * np.where(weight > 0, rows.late, 0.0))
    return mean / np.maximum(total, 1e-300), total
