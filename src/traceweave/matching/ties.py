"""Do ends tie ranks to one group? What tells a collective from calls that only look alike.

The ends of one collective coincide, whoever was late; starts do not. Of two groups side by side
each ends a transfer after its own last start, so the difference of their ends follows that of their
last starts. For ranks A and B of a set, and calls k that were taken for one,

    one group:    end_A - end_B               scatters as ends do, whatever the starts do
    two groups:   (end_A - last start_A) - (end_B - last start_B)     does, and that needs no clock

Which of the two scatters less says which it is; how clearly, the likelihood of both under one noise
(Student's t, so that single calls decide nothing). Where neither scatters more, as when nobody ever
waits, nothing tells.

Calls of a stream that several groups may share are told apart by that a program repeats itself: a
call of another group comes back at equal distances. So a call is of the group that most are of if,
whatever the distance, it and its like prove that by themselves (`own_calls`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.matching.alignment import Alignment
from traceweave.matching.coarse_clocks import fit_curve
from traceweave.matching.evidence import (
    FLOOR_NS,
    LEAST,
    SHARE,
    clear,
    likelier,
    surprise,
    verdicts,
)
from traceweave.matching.strands import Strand
from traceweave.medians import from_neighbours, running_median

SPEAKS = 2.0
"""The same for a call that speaks for itself."""
FOREIGN = 0.05
"""Share of messages that may look as if they were of others."""
APART = 10.0
"""How many times farther starts must lie apart than ends where who was last may not be known."""
STRAY_NS = 10_000.0
"""Ends of calls that some members lack may scatter so far, as rings alone let them."""
GAP = 3.0
"""What lies this many times farther apart than ends scatter is not together."""
SAMPLE = 400
"""Calls that tell how near ranks are to each other."""
ENOUGH = 10.0
"""Logarithm of how many times likelier it must be that LEAST calls are of the group than not."""
LONGEST = 256
"""Calls after which a program is taken to repeat itself at the latest."""


@dataclass(frozen=True)
class Bundle:
    """Calls of several strands side by side, a row per call of the first and a column per strand;
    times are on the clock of the first, NaN where a strand has no partner.
    """

    ranks: Ints
    start: Floats
    end: Floats
    pure: bool = False
    """No stream carries calls of several groups."""
    in_step: bool = False
    """Its ranks come in step with others: one that was not recorded may with any of them."""

    def columns(self, order: Ints) -> Bundle:
        """Return some of the strands, in another order."""
        return replace(
            self, ranks=self.ranks[order], start=self.start[:, order], end=self.end[:, order]
        )

    def from_usual(self, values: Floats) -> Floats:
        """Return how far values of calls lie from what is usual around them. Where calls of another
        group may be among them, that is told by each as well: it lies in the middle of calls that
        began far apart, whose median alone is not known well enough to see that.
        """
        return from_neighbours(values) if self.pure else values - running_median(values)


@dataclass(frozen=True)
class Tie:
    """What the ends of parts of a bundle say."""

    calls: int
    ends_ns: float
    """How far the ends of neighbouring parts scatter, median."""
    apart_ns: float
    """How far they would if the parts were groups of their own."""
    far_ratio: float
    """Nine tenths of the one lie this many times farther out than nine tenths of the other."""
    by_call: Floats
    """Logarithm of how many times likelier each row of the bundle is one call of one group than
    calls of several, mean over neighbouring parts; 0 where too few parts have a call."""
    joins: bool = False
    """Some two neighbouring parts clearly are of one group: whatever else these ranks are, they are
    not the groups that the parts would be."""

    @property
    def evidence(self) -> float:
        """Logarithm of how many times likelier one group is than several."""
        return float(self.by_call.sum())

    @property
    def against(self) -> float:
        """Share of calls that by themselves speak for several groups."""
        return int((self.by_call < -SPEAKS).sum()) / max(self.calls, 1)

    @property
    def clear(self) -> bool:
        """Whether the evidence is enough, for either reading."""
        return clear(self.evidence, self.calls)

    @property
    def proves(self) -> bool:
        """Whether it clearly is one group."""
        return self.clear and self.evidence > 0


def bundle(
    strands: list[Strand],
    alignments: list[Alignment | None],
    *,
    pure: bool = False,
) -> Bundle:
    """Set strands beside the first, with which the others have been aligned, on its clock as the
    ends show it; `pure`: no stream carries calls of several groups.
    """
    first = strands[0]
    shape = (len(first), len(strands))
    start, end = np.full(shape, np.nan), np.full(shape, np.nan)
    start[:, 0], end[:, 0] = first.calls.start, first.calls.end
    for column, (strand, found) in enumerate(zip(strands, alignments, strict=True)):
        if found is None:
            continue
        mine = np.flatnonzero(found.partner >= 0)
        row = found.partner[mine]
        at = strand.calls.end[mine].astype(np.float64)
        clock = fit_curve(at, first.calls.end[row] - at)
        start[row, column] = clock.apply(strand.calls.start[mine])
        end[row, column] = clock.apply(at)
    return Bundle(np.array([s.rank for s in strands]), start, end, pure)


def weigh(
    whole: Bundle, parts: list[Ints], recorded: list[bool] | None = None, *, strict: bool = False
) -> Tie:
    """Weigh one group against the groups that `parts` (columns) would be, neighbour by neighbour;
    `recorded`: which of them would have no other members. Where others were not recorded, a part
    that seems to wait for a rank of another may wait for them, if they come in step with that rank.
    Such calls count if several ranks came last and no two come in step; `strict`: only if neither
    part was recorded whole.
    """
    pairs = [_differences(whole, one, other) for one, other in itertools.pairwise(parts)]
    enough = [number for number, pair in enumerate(pairs) if np.isfinite(pair[0]).sum() >= LEAST]
    if not enough:
        return Tie(0, np.inf, np.inf, 0.0, np.zeros(len(whole.end)))
    y, z, took, longer = (np.stack(of) for of in zip(*(pairs[n] for n in enough), strict=True))
    y, z, took = np.abs(y), np.abs(z), np.abs(took)
    known = np.isfinite(y)
    nearer = np.zeros(y.shape)
    nearer[known] = likelier(y[known], z[known], took[known])
    if recorded is not None and not all(recorded):
        here, there = (np.array(recorded)[np.array(enough) + side, None] for side in (0, 1))
        waits = np.where(longer > 0, there, here) & (2 * np.abs(longer) >= z)
        doubtful = (nearer > 0) & ~(here & there) & ~waits
        refused = (here | there) & strict | whole.in_step
        nearer = np.where(doubtful, np.where(refused, 0, _of_several(whole, nearer)), nearer)
    y, z = y[known], z[known]
    far = [max(FLOOR_NS, float(np.quantile(of, 0.9))) for of in (y, z)]
    return Tie(
        calls=len(y) // len(pairs),
        ends_ns=float(np.median(y)),
        apart_ns=float(np.median(z)),
        far_ratio=far[1] / far[0],
        # neighbours share ranks, so each has its say in proportion
        by_call=nearer.sum(axis=0) / np.maximum(known.sum(axis=0), 1),
        joins=any(
            says > 0 and clear(float(says), int(count))
            for says, count in zip(nearer.sum(axis=1), known.sum(axis=1), strict=True)
        ),
    )


def in_step(whole: Bundle, beside: Floats) -> bool:
    """Return whether those that others waited for came in step with another rank that was recorded,
    in a good share of what calls say; `beside`: when ranks began that are not in the bundle.
    """
    each = weigh(whole, [np.array([column]) for column in range(len(whole.ranks))])
    last = np.nanmax(whole.start, axis=1, keepdims=True)
    near = np.abs(np.c_[whole.start, beside] - last) <= GAP * max(FLOOR_NS, each.ends_ns)
    says = np.maximum(each.by_call, 0)
    return bool(says[near.sum(axis=1) > 1].sum() >= SHARE * says.sum() > 0)


def _of_several(whole: Bundle, nearer: Floats) -> Floats:
    """What calls say in which one rank alone came last, without the rank for which that is most."""
    start = np.where(np.isfinite(whole.start), whole.start, -np.inf)
    by_start = np.sort(start, axis=1)
    last, alone = start.argmax(axis=1), by_start[:, -1] - by_start[:, -2] > STRAY_NS
    says = np.maximum(nearer, 0) * alone
    most = np.bincount(last, says.sum(axis=0), minlength=start.shape[1]).argmax()
    return np.asarray(says * (last != most))


def ends_apart(whole: Bundle, one: Ints, other: Ints) -> Floats:
    """Return how far the ends of two parts lie apart, row by row and whatever their clocks do; NaN
    where one has no call."""
    return np.abs(_differences(whole, one, other)[0])


def _differences(whole: Bundle, one: Ints, other: Ints) -> tuple[Floats, ...]:
    """How far the ends of two parts lie apart, row by row, how far their transfers do, how long the
    shorter of them is, and how much longer the other's is; NaN where one has no call.
    """
    ends, transfers = [], []
    for part in (one, other):
        end = whole.end[:, part].mean(axis=1)
        ends.append(end)
        transfers.append(end - whole.start[:, part].max(axis=1))
    known = np.isfinite(ends[0]) & np.isfinite(ends[1])
    y, z, took = ends[1] - ends[0], transfers[1] - transfers[0], np.minimum(*transfers)
    longer = z.copy()
    y[~known] = z[~known] = np.nan
    if known.any():
        # slow clocks are in the one, sizes that take turns in both
        y[known], z[known] = whole.from_usual(y[known]), whole.from_usual(z[known])
    return y, z, took, longer


def strays(whole: Bundle, parts: list[Ints]) -> Floats:
    """Return what calls say against one group that some members lack, so that their last start is
    not known: the ends of those that there are lie far apart. As Tie.by_call.
    """
    says = np.zeros(len(whole.end))
    for one, other in itertools.pairwise(parts):
        present = np.isfinite(whole.end)
        apart = _mean(whole.end[:, other]) - _mean(whole.end[:, one])
        known = present[:, one].all(axis=1) & present[:, other].all(axis=1)
        lacking = np.flatnonzero(np.isfinite(apart) & ~known)
        if known.sum() < LEAST or not len(lacking):
            continue
        apart[np.isfinite(apart)] = whole.from_usual(apart[np.isfinite(apart)])
        noise = max(STRAY_NS, 1.4826 * float(np.median(np.abs(apart[known]))))
        says[lacking] -= surprise(apart[lacking] / noise)
    return says / max(len(parts) - 1, 1)


def _mean(ends: Floats) -> Floats:
    """Mean of what is known in every row, NaN where that is nothing."""
    count = np.isfinite(ends).sum(axis=1)
    return np.where(count > 0, np.nansum(ends, axis=1) / np.maximum(count, 1), np.nan)


def rivals(whole: Bundle) -> Iterator[list[Ints]]:
    """Ways in which the columns of a bundle, in the order of ranks, may be several groups, as the
    ends themselves suggest; beside those in which groups lie over ranks (groups.layouts)."""
    if len(whole.ranks) > 2:
        for members in _clusters(_distances(whole)):
            yield [members, np.setdiff1d(np.arange(len(whole.ranks)), members)]


def _distances(whole: Bundle) -> Floats:
    """How far the ends of every two columns scatter, ns."""
    rows = np.linspace(0, len(whole.end) - 1, min(len(whole.end), SAMPLE)).astype(np.int64)
    end = whole.end[rows]
    apart = np.zeros((end.shape[1],) * 2)
    for column in range(end.shape[1]):
        # neighbours in time, so that slow clocks and waiting groups do not count
        steps = np.abs(np.diff(end - end[:, column : column + 1], axis=0))
        known = np.isfinite(steps).any(axis=0)
        apart[column, known] = np.nanmedian(steps[:, known], axis=0)
        apart[column, ~known] = np.inf
    return np.minimum(apart, apart.T)


def _clusters(distance: Floats) -> Iterator[Ints]:
    """Every column alone, and every larger cluster but the whole, nearest joined first."""
    from scipy.cluster.hierarchy import linkage  # slow to import, and few runs need it

    far = np.nan_to_num(distance[np.triu_indices(len(distance), 1)], posinf=1e18)
    count = len(distance)
    inside = {n: np.array([n]) for n in range(count)}
    yield from inside.values()
    for number, (one, other, _, _) in enumerate(linkage(far, "average")[:-1]):
        inside[count + number] = np.sort(np.r_[inside[int(one)], inside[int(other)]])
        if 2 <= len(inside[count + number]) <= count - 2:
            yield inside[count + number]


def own_calls(by_call: Floats, place: Ints) -> Flags:
    """Return which calls are proven, from what each says for the group (Tie.by_call) and its place
    among all calls of its stream: every LEAST at equal distances that a call is part of say enough,
    and there are such.

    Calls that, with most of their like, clearly are not of the group do not speak for the others.
    """
    place = place - place.min()
    says = np.full(int(place.max()) + 1, np.nan)
    says[place] = by_call
    foreign, judged, doubtful = np.full((3, len(says)), False)
    for distance in _distances_of(place):
        each = _windows(says, distance)
        total = each.sum(axis=0)
        against = (total <= -ENOUGH) & ((each < 0).sum(axis=0) > LEAST / 2)
        _mark(foreign, distance, against)
        _mark(judged, distance, np.isfinite(total))
    others = np.where(foreign, np.nan, says)
    for distance in _distances_of(place):
        total, each = _windows(says, distance).sum(axis=0), _windows(others, distance)
        lacking = np.isnan(each).sum(axis=0)
        mostly = np.nansum(each, axis=0) + lacking * ENOUGH / LEAST
        enough = np.where(lacking <= LEAST / 2, mostly, total) >= ENOUGH
        _mark(doubtful, distance, np.isfinite(total) & ~enough)
    return np.asarray((judged & ~foreign & ~doubtful)[place])


def is_of_several(by_call: Floats, place: Ints) -> bool:
    """Return whether calls at equal distances clearly are not of the group that most are of, though
    so many distances and places are tried."""
    place = place - place.min()
    tried = [(place % distance, distance) for distance in _distances_of(place)]
    if not tried:
        return False
    says = np.concatenate([np.bincount(of, by_call, count) for of, count in tried])
    calls = np.concatenate([np.bincount(of, minlength=count) for of, count in tried])
    return bool((verdicts(says + np.log(len(says)), calls) < 0).any())


def _distances_of(place: Ints) -> range:
    """The distances at which LEAST calls may lie."""
    return range(1, min(LONGEST, int(place.max()) // (LEAST - 1)) + 1)


def _windows(says: Floats, distance: int) -> Floats:
    """What LEAST calls at equal distances say, a row each, wherever the first of them is."""
    count = len(says) - (LEAST - 1) * distance
    return np.stack([says[n * distance :][:count] for n in range(LEAST)])


def _mark(found: Flags, distance: int, windows: Flags) -> None:
    """Note all calls of some windows."""
    for n in range(LEAST):
        found[n * distance :][: len(windows)] |= windows
