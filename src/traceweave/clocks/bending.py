"""Bends of all clocks beside their lines: which clocks bend alike, when they stepped, how they
wander.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks import residuals
from traceweave.clocks.bend_clusters import bends_show, cluster, thinned
from traceweave.clocks.bends import Bend, Step, ahead
from traceweave.clocks.joint_bends import Joint, Moment, Rows, made
from traceweave.clocks.matrices import Block, columns_of_ranks
from traceweave.clocks.piece import Piece
from traceweave.clocks.steps import LEAST_NS, WINDOW, clearest_step
from traceweave.medians import row_medians

KNOTS = 64
PER_KNOT = 6
"""Anchors that a knot needs."""
NEAREST = 1 / (4 * KNOTS)
"""Share of the whole time between knots: curves through nearer ones cannot be computed."""
SEARCHES = 40
"""Rounds of looking for steps."""
SHARE = 0.5
"""Of steps at one time, those this clear beside the clearest are looked at together."""
SURE = 6.0
"""Standard errors that the height of a step must have."""
FAST = 3e-3
"""A curve that runs so much faster between two knots than in general has not seen a step there."""
VAGUE = 0.1
"""Two steps known so much worse than from one anchor may each be the other."""


def find_bends(blocks: list[Block], piece: Piece, bends: Sequence[Bend]) -> list[Bend] | None:
    """Return every rank's bend beside its line in `piece`, which `bends` have straightened, on the
    rank's own clock; None where lines describe the clocks.
    """
    first = all(bend.straight for bend in bends)
    if first and not bends_show(blocks, piece.fit.clean, piece.host):
        return None
    # beside lines that are far off, lags and waves explain what clocks have done
    found = piece.fit.whole if first else piece.fit.rests
    few, rests = thinned(blocks, found)
    rests = [rest - ahead(block, bends) for rest, block in zip(rests, few, strict=True)]
    of_rank = _alike(few, rests, piece, bends)
    if of_rank.max() == 0:
        return None
    whole = moments_of(piece)
    moments = thinned(blocks, whole)[1]
    steep = _steep(piece, of_rank)
    rests = [
        rest - steep[block.ranks] * (block.end - piece.middle[block.ranks])
        for rest, block in zip(rests, few, strict=True)
    ]
    tables = _tables(few, rests, moments, of_rank)
    knots = _knots(tables) if tables else np.zeros(0)
    if len(knots) < 3:
        return None
    joint = Joint(tables, int(of_rank.max()) + 1, knots)
    _find_steps(joint)
    joint.settle()
    for _ in range(SEARCHES):
        if not _step_where_fast(joint):
            break
        joint.settle()
    _place(joint)
    _prune(joint)
    if first and joint.straight.all() and not joint.steps:
        return None
    joint.steps = [_as_told(joint, step) for step in joint.steps]
    level = replace(piece, fit=replace(piece.fit, drift=piece.fit.drift - steep))
    return _of_ranks(joint, level, of_rank, blocks, whole)


def _alike(blocks: list[Block], rests: list[Floats], piece: Piece, bends: Sequence[Bend]) -> Ints:
    """A number per rank, the same for those that bend alike. Clocks that were told apart before
    stay so, or steps would be found and lost in turns. What threads of one host read is one clock.
    """
    clock = np.unique(np.column_stack([piece.host, piece.unit]), axis=0, return_inverse=True)[1]
    shared = np.asarray(np.bincount(clock)[clock] > 1)
    before = np.where(shared, -1, [bend.cluster for bend in bends])
    both = np.column_stack([before, cluster(blocks, rests, clock, shared)])
    threads = shared & ~np.array([info.on_gpu for info in piece.ranks])
    both[threads] = np.column_stack([np.full(threads.sum(), -2), clock[threads]])
    return np.asarray(np.unique(both, axis=0, return_inverse=True)[1])


def _steep(piece: Piece, of_rank: Ints) -> Floats:
    """What the lines of each rank's cluster have of drift against those of its root's, for which
    bends shall account: a line through ends before and after a step is no clock's.
    """
    mean = np.bincount(of_rank, piece.fit.drift) / np.bincount(of_rank)
    root = np.array([piece.roots[int(number)] for number in piece.component])
    return np.asarray(mean[of_rank] - mean[of_rank[root]])


def moments_of(piece: Piece) -> list[Floats]:
    """When every instance ended on the common clock, per block and row, ns."""
    fit = piece.fit
    return [
        row_medians(block.shifted(fit.offset, fit.drift, piece.middle).end).ravel()
        for block in piece.blocks
    ]


def _tables(
    blocks: list[Block], rests: list[Floats], moments: list[Floats], of_rank: Ints
) -> list[Rows]:
    """The ends as what clusters differ by."""
    result = []
    for block, rest, moment in zip(blocks, rests, moments, strict=True):
        clusters, mine = np.unique(of_rank[block.ranks], return_inverse=True)
        ends = np.isfinite(rest) @ (mine[:, None] == np.arange(len(clusters)))
        rows = np.flatnonzero((ends > 0).sum(axis=1) > 1)
        rows = rows[np.argsort(moment[rows], kind="stable")]
        if len(rows):
            sort = np.round(2 * np.log2(np.maximum(block.transfer[rows], 1e3))).astype(np.int64)
            result.append(Rows(clusters, moment[rows], rest[rows], mine, sort))
    return result


def _knots(tables: list[Rows]) -> Floats:
    """Knots with as many anchors between them, one as the other, where anchors do not crowd."""
    moments = np.sort(np.concatenate([rows.moment for rows in tables]))
    anchors = np.bincount(
        np.concatenate([rows.clusters for rows in tables]),
        np.concatenate([np.full(len(rows.clusters), len(rows.moment)) for rows in tables]),
    )
    count = int(np.clip(anchors.max() // PER_KNOT, 3, KNOTS))
    places = np.linspace(0, len(moments) - 1, count).astype(np.int64)
    least = NEAREST * (moments[-1] - moments[0])
    knots = moments[:1].tolist()
    for moment in moments[places].tolist():
        if moment - knots[-1] > least:
            knots.append(moment)
    knots[-1] = float(moments[-1]) + 1.0
    return np.array(knots)


def _find_steps(joint: Joint) -> None:
    """Find when clusters stepped, the clearest of each time first; with it, what others seem to
    have done then, since who stepped and who did not only shows once all may.
    """
    for _ in range(SEARCHES):
        joint.solve()
        before = set(joint.steps)
        found: list[tuple[float, Moment, float, float]] = []
        for number in range(joint.clusters):
            moment, behind = _series(joint, number)
            known = [step.until for step in joint.steps if step.cluster == number]
            candidate = clearest_step(moment, behind, np.searchsorted(moment, known))
            if candidate is not None:
                place = candidate.place
                step = Moment(number, float(moment[place - 1]), float(moment[place]))
                low, high = moment[candidate.low], moment[candidate.high]
                found.append((candidate.clear, step, float(low), float(high)))
        if not found:
            return
        for clear, step, low, high in found:
            near = [other[0] for other in found if other[2] <= high and low <= other[3]]
            if clear >= SHARE * max(near):
                joint.add(step)
        if not _tidy(joint, before):
            return


def _step_where_fast(joint: Joint) -> bool:
    """Let the cluster step whose curve runs faster than any clock, where it is fastest; whether any
    does."""
    rate = np.diff(joint.values, axis=0) / np.diff(joint.knots)[:, None]
    fast = np.abs(rate - np.median(rate, axis=0))
    places = np.argsort(-fast, axis=None)[: int((fast > FAST).sum())]
    moments = {n: _series(joint, n)[0] for n in np.unique(places % joint.clusters).tolist()}
    for place in places.tolist():
        knot, number = divmod(place, joint.clusters)
        moment = moments[number]
        low, high = np.searchsorted(moment, joint.knots[knot : knot + 2])
        around = moment[max(low - 1, 0) : high + 1]
        if len(around) < 2:
            continue
        gap = int(np.diff(around).argmax())
        step = Moment(number, float(around[gap]), float(around[gap + 1]))
        if not any(old.cluster == number and _meet(old, step) for old in joint.steps):
            joint.add(step)
            return True
    return False


def _tidy(joint: Joint, before: set[Moment]) -> bool:
    """Place the steps, and keep those that are high enough, once each; whether any is new."""
    joint.solve()
    _place(joint)
    first = {step: number for number, step in reversed(list(enumerate(joint.steps)))}
    joint.drop(sorted(first.values()))
    joint.solve()
    joint.drop(np.flatnonzero(np.abs(joint.heights) >= LEAST_NS).tolist())
    return not before.issuperset(joint.steps)


def _place(joint: Joint) -> None:
    """Move every step between those two anchors where its height fits best, the rest being as it
    is."""
    for number, step in enumerate(joint.steps):
        moment, behind = _series(joint, step.cluster)
        rest = behind - joint.curve(step.cluster, moment)
        for other, height in zip(joint.steps, joint.heights, strict=True):
            if other.cluster == step.cluster and other is not step:
                rest = rest - height * made(moment, other)
        here = int(np.searchsorted(moment, step.until))
        low, high = max(0, here - WINDOW), min(len(moment), here + WINDOW)
        near, height = rest[low:high], joint.heights[number]
        cost = np.r_[0.0, np.cumsum(np.abs(near) - np.abs(near - height))]
        place = low + 1 + int(cost[1:-1].argmin())
        joint.steps[number] = replace(
            step, since=float(moment[place - 1]), until=float(moment[place])
        )


def _prune(joint: Joint) -> None:
    """Leave out steps that are none, of those at one time the least clear first: where all clusters
    may step at once, none is sure before one may not.
    """
    while joint.steps:
        clear = _clear(joint)
        # what is known no better than from one anchor may be that anchor's
        alone = joint.noise()[[step.cluster for step in joint.steps]] / joint.height_errors
        for number in np.flatnonzero((alone < 1) & (clear >= 1)).tolist():
            if alone[number] < VAGUE or _rests_on_one(joint, number):
                clear[number] = alone[number]
        out: list[int] = []
        for number in np.argsort(clear, kind="stable").tolist():
            if clear[number] < 1 and not any(
                _meet(joint.steps[number], joint.steps[other])
                or max(alone[number], alone[other]) < VAGUE
                for other in out
            ):
                out.append(number)
        if not out:
            return
        joint.drop([n for n in range(len(joint.steps)) if n not in out])
        joint.settle()


def _rests_on_one(joint: Joint, number: int) -> bool:
    """Whether a step is not clear without the anchor before it, or without the one after it."""
    step, weights, lost = joint.steps[number], joint.weights, False
    for edge in (step.since, step.until):
        joint.weights = [
            np.where((rows.moment == edge)[:, None], 0.0, weight)
            for rows, weight in zip(joint.tables, weights, strict=True)
        ]
        joint.solve()
        lost |= bool(_clear(joint)[number] < 1)
    joint.weights = weights
    joint.solve()
    return lost


def _clear(joint: Joint) -> Floats:
    """How high every step is, in units of what it has to be."""
    return np.abs(joint.heights) / np.maximum(LEAST_NS, SURE * joint.height_errors)


def _meet(one: Moment, other: Moment) -> bool:
    return one.since <= other.until and other.since <= one.until


def _series(joint: Joint, number: int) -> tuple[Floats, Floats]:
    """How far the ends of one cluster lie behind those of the others, straightened, in the order of
    time; its own steps are taken out.
    """
    found = [(np.zeros(0), np.zeros(0))]
    for place, rows in enumerate(joint.tables):
        if number not in rows.clusters:
            continue
        mine = rows.clusters == number
        straight = joint.straightened(place)
        weight = np.where(mine, 0.0, joint.weights[place])
        total = weight.sum(axis=1)
        known = (total > 0) & (joint.weights[place][:, mine] > 0).ravel()
        others = np.sum(weight * np.where(weight > 0, straight, 0.0), axis=1)[known] / total[known]
        found.append((rows.moment[known], others - joint.rests[place][known][:, mine].ravel()))
    moment = np.concatenate([moment for moment, _ in found])
    behind = np.concatenate([behind for _, behind in found])
    order = np.argsort(moment, kind="stable")
    return moment[order], behind[order]


def _as_told(joint: Joint, step: Moment) -> Moment:
    """Let a step lie anywhere between the anchors that tell it from what others did then: ends that
    clusters share which stepped together tell nothing of when.
    """
    together = {step.cluster}
    while True:
        moments = _told_apart(joint, step.cluster, together)
        since = np.max(moments[moments <= step.since], initial=-np.inf)
        until = np.min(moments[moments >= step.until], initial=np.inf)
        near = {s.cluster for s in joint.steps if s.since < until and s.until > since}
        if near <= together:
            break
        together |= near
    since, until = max(since, joint.knots[0]), min(until, joint.knots[-1])
    return replace(step, since=float(min(since, step.since)), until=float(max(until, step.until)))


def _told_apart(joint: Joint, cluster: int, together: set[int]) -> Floats:
    """When a cluster shared an instance with one that is not among those `together`."""
    found = [np.zeros(0)]
    for rows in joint.tables:
        known = rows.per_cluster(np.isfinite(rows.late)) > 0
        others = ~np.isin(rows.clusters, list(together))
        mine = rows.clusters == cluster
        found.append(rows.moment[known[:, mine].any(axis=1) & known[:, others].any(axis=1)])
    return np.concatenate(found)


def _of_ranks(
    joint: Joint, piece: Piece, of_rank: Ints, blocks: list[Block], moments: list[Floats]
) -> list[Bend]:
    """Every rank's bend against that of the common clock of its component, on its own clock."""
    whole, gaps = _of_clusters(joint), _gaps(joint)
    columns = columns_of_ranks(blocks, len(of_rank))
    ended = [
        np.broadcast_to(moment[:, None], block.end.shape)
        for block, moment in zip(blocks, moments, strict=True)
    ]
    result = []
    for rank in range(len(of_rank)):
        mine = int(of_rank[rank])
        root = int(of_rank[piece.roots[int(piece.component[rank])]])
        against = whole[mine].less(whole[root]) if mine != root else Bend()
        doubts = [Step(gap.since, gap.until, 0.0) for gap in gaps if gap.concerns(mine, root)]
        steps = sorted([*against.steps, *doubts], key=lambda step: step.since)
        against = replace(against, steps=tuple(steps))
        own = _on_own_clock(against, piece, rank)
        if own.steps:
            own = _between_anchors(own, against, *residuals.of_rank(blocks, ended, columns[rank]))
        result.append(replace(own, cluster=mine))
    return result


@dataclass(frozen=True)
class _Gap:
    """A time in which clusters stepped, nobody knows when."""

    since: float
    until: float
    told: tuple[Floats, ...]
    """By how much each of all clusters stepped, ns, as was found first; then other answers."""

    def concerns(self, one: int, other: int) -> bool:
        """Whether one of two clusters may be among those that stepped."""
        return any(heights[one] != 0 or heights[other] != 0 for heights in self.told)


def _gaps(joint: Joint) -> list[_Gap]:
    """Return when clusters stepped, and by how much each may have.

    Ends only tell what clusters differ by: those that stepped may as well not have, if all others
    did. Where as few steps say so, nobody knows who it was; of two clocks, never.
    """
    return [
        _Gap(since, until, tuple(_answers(joint, here)))
        for since, until, here in _overlaps(joint.steps)
    ]


def _overlaps(steps: list[Moment]) -> Iterator[tuple[float, float, list[int]]]:
    """Steps that lie in one gap, by their numbers, and the time that all of them may lie in."""
    left = sorted(range(len(steps)), key=lambda n: steps[n].since)
    while left:
        since, until, here = -np.inf, np.inf, list[int]()
        for number in left:
            low, high = max(since, steps[number].since), min(until, steps[number].until)
            if low < high or not here:
                since, until = low, high
                here.append(number)
        left = [number for number in left if number not in here]
        yield since, until, here


def _answers(joint: Joint, here: list[int]) -> Iterator[Floats]:
    """By how much each cluster steps if it is the steps `here` that explain the ends, and with each
    of those that stepped taken for still instead, where that takes as few.
    """
    heights = np.zeros(joint.clusters)
    for number in here:
        heights[joint.steps[number].cluster] += joint.heights[number]
    least = max(LEAST_NS, SURE * float(joint.height_errors[here].max()))
    fewest = int((np.abs(heights) >= least).sum())
    yield heights
    for height in heights[heights != 0]:
        if (np.abs(heights - height) >= least).sum() <= fewest:
            yield heights - height


def _of_clusters(joint: Joint) -> list[Bend]:
    errors = np.sqrt(np.mean(joint.curve_errors() ** 2, axis=0))
    result = []
    for number in range(joint.clusters):
        steps = [
            Step(step.since, step.until, float(height))
            for step, height in zip(joint.steps, joint.heights, strict=True)
            if step.cluster == number
        ]
        steps.sort(key=lambda step: step.since)
        curve = joint.values[:, number]
        result.append(Bend(joint.knots, curve, float(errors[number]), tuple(steps)))
    return result


def _on_own_clock(bend: Bend, piece: Piece, rank: int) -> Bend:
    """Return a bend over the common clock over a rank's own."""
    offset, drift = piece.fit.offset[rank], piece.fit.drift[rank]
    middle = piece.middle[rank]

    def own(moments: Floats) -> Floats:
        behind = bend(moments) + offset
        return np.asarray(middle + (moments - behind - middle) / (1 + drift))

    edges = [own(np.array([step.since, step.until])).tolist() for step in bend.steps]
    steps = tuple(
        Step(since, until, step.height)
        for step, (since, until) in zip(bend.steps, edges, strict=True)
    )
    return replace(bend, at=own(bend.at), steps=steps)


def _between_anchors(own: Bend, common: Bend, end: Floats, at: Floats) -> Bend:
    """Let steps lie after the ends of the instances before them, and before those after; `at`: when
    their instances ended on the common clock."""
    steps = []
    for step, told in zip(own.steps, common.steps, strict=True):
        since = float(np.max(end[at <= told.since], initial=step.since))
        until = float(np.min(end[at >= told.until], initial=step.until))
        steps.append(Step(since, max(until, since + 1.0), step.height))
    return replace(own, steps=tuple(steps))
