"""What is told of every clock: the rows of the table, their errors, bounds and status."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.basis import Step, functions
from traceweave.clocks.bounds import Bounds
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.matrices import Block
from traceweave.clocks.probes import PROBED
from traceweave.clocks.start import SAME_NS, Start
from traceweave.clocks.system import Model
from traceweave.medians import others_medians

EPOCH_NS = 1_000_000_000_000_000_000
"""Local times below this (the year 2001) do not count from the Unix epoch."""
DAY_NS = 86_400_000_000_000
NEAR_NS = 500.0
"""Lines stand for a curve that they leave by no more."""
MOST_LINES = 64
MOMENTS = 33
"""At which a curve is looked at between two calls."""
FAR = 99
"""Percentile of distances of ends that says how far a clock has moved unnoticed."""
MOVED = 50
"""Percentile of distances of a clock's ends beyond which causality does not move it: what a few
calls say is that it has moved meanwhile, and"""
FEW = 20
"""fewer ends overrule no call that contradicts them: each is more than 5 % of them."""
SIGMAS = 4.0
"""Standard errors that a bound allows a curve to be off."""


@dataclass(frozen=True)
class Answer:
    """Clocks as fitted, and what their rows are made of."""

    ranks: list[RankInfo]
    blocks: list[Block]
    origin_ns: int
    reference: int | None
    start: Start
    model: Model | None
    bounds: Bounds | None = None

    def added(self, rank: int, local: Floats) -> Floats:
        """What to add to local times of a rank."""
        first = self.start.added(np.array(rank), local)
        model = self.model
        if model is None:
            return first
        root, total = int(self.roots[rank]), first
        both = [(model.unit[rank], 1.0), (model.unit[root], -1.0)]
        fun = functions(local + first, model.span, bool(model.bend_var[[u for u, _ in both]].any()))
        for unit, sign in both:
            total = total + sign * (fun @ model.coef[unit][: fun.shape[1]])
            for step, height in zip(model.steps, model.height, strict=True):
                if unit == step.unit:
                    total = total + sign * height * (local >= self.local(rank, step.at))
        return np.asarray(total + model.gpu[rank] - model.gpu[root])

    def local(self, rank: int, when: float) -> float:
        """A rank's own time at a moment of the common clock, by the ends of its clock about it:
        lines leave a clock where it steps."""
        assert self.model is not None
        common, own = self.seen[int(self.model.unit[rank])]
        if not len(common):
            return when - float(self.start.added(np.array(rank), np.array(when)))
        beyond = when - float(np.clip(when, common[0], common[-1]))
        return float(np.interp(when, common, own)) + beyond

    @cached_property
    def seen(self) -> list[tuple[Floats, Floats]]:
        """Per clock: when, on the common clock, instances were that it has ends in, ascending, and
        its own time of each."""
        assert self.model is not None
        model = self.model
        ends, count = model.ends, len(model.fixed)
        key, number = np.unique(model.of * ends.rows + ends.row, return_inverse=True)
        own = np.bincount(number, ends.local) / np.bincount(number)
        edges = np.searchsorted(key, np.arange(1, count) * ends.rows)
        return list(
            zip(np.split(model.when[key % ends.rows], edges), np.split(own, edges), strict=True)
        )

    def error(self, rank: int, when: Floats) -> Floats:
        """Standard error of what is added, at times of the common clock."""
        model, root = self.model, int(self.roots[rank])
        if model is None or rank == root:
            return np.zeros(len(when))
        fun = functions(when, model.span)
        row = np.zeros((len(when), len(model.kind)))
        sign = (model.clock == model.unit[rank]) * 1.0 - (model.clock == model.unit[root])
        n = len(model.clock)
        row[:, :n] = fun[:, model.which] * sign
        for j, step in enumerate(model.steps):
            side = float(model.unit[rank] == step.unit) - float(model.unit[root] == step.unit)
            row[:, n + j] = side * (when >= step.at)
        gpus = n + len(model.steps) + np.arange(len(model.gpus))
        row[:, gpus] = (model.gpus == rank) * 1.0 - (model.gpus == root)
        used = np.flatnonzero(row.any(axis=0))
        row = row[:, used]
        return np.asarray(
            np.sqrt(
                np.maximum(((row @ self.covariance[np.ix_(used, used)]) * row).sum(axis=1), 0.0)
            )
        )

    @cached_property
    def roots(self) -> Ints:
        """The rank on whose clock each rank is told."""
        return self.start.root

    @cached_property
    def covariance(self) -> Floats:
        """Of all unknowns of the model."""
        assert self.model is not None
        return self.model.covariance()

    def steps_of(self, rank: int) -> list[Step]:
        """The steps of a rank's clock and of its reference's, in order."""
        model, root = self.model, int(self.roots[rank])
        if model is None or model.unit[rank] == model.unit[root]:
            return []
        mine, other = model.unit[rank], model.unit[root]
        return sorted((s for s in model.steps if s.unit in (mine, other)), key=lambda s: s.at)

    def span(self, step: Step) -> tuple[float, float]:
        """Since when and until when a step may have been."""
        assert self.model is not None
        return self.model.spans[self.model.steps.index(step)]

    def bends(self, rank: int) -> bool:
        """Whether a rank's clock or its reference's bends."""
        model, root = self.model, int(self.roots[rank])
        if model is None or model.unit[rank] == model.unit[root]:
            return False
        return bool(model.bend_var[model.unit[[rank, root]]].any())

    def on_common_clock(self) -> list[Block]:
        """The blocks as the fitted clocks show them; NaN where a clock may have stepped or not."""
        result = []
        for block in self.blocks:
            start, end = np.empty_like(block.start), np.empty_like(block.end)
            for column, rank in enumerate(block.ranks.tolist()):
                for of, to in ((block.start, start), (block.end, end)):
                    local = of[:, column]
                    told = local + self.added(rank, local)
                    for step in self.steps_of(rank):
                        since, until = self.span(step)
                        told[(told > since + 1) & (told < until - 1)] = np.nan
                    to[:, column] = told
            result.append(replace(block, start=start, end=end))
        return result

    @cached_property
    def ends_of_ranks(self) -> list[tuple[Floats, Flags, Floats]]:
        """Per rank: its ends on its own clock, ascending, whether ranks of other clocks shared the
        call, and how far each lies after those of the other ranks."""
        count = len(self.ranks)
        if self.model is None:
            return [(np.zeros(0), np.zeros(0, np.bool_), np.zeros(0))] * count
        model = self.model
        ends = model.ends
        told = model.moved()
        rest = told - others_medians(told, ends.row)
        tied = ends.tying(model.unit)[ends.row]
        order = np.lexsort((ends.local, ends.rank))
        edges = np.searchsorted(ends.rank[order], np.arange(1, count))
        parts = np.split(order, edges)
        return [(ends.local[part], tied[part], rest[part]) for part in parts]

    @cached_property
    def stretches(self) -> list[tuple[Floats, list[tuple[int, Ints, Floats]]]]:
        """Per rank: its ends that tie its clock to others, and how far they are off together."""
        return [(ends[tied], _stretches(rest[tied])) for ends, tied, rest in self.ends_of_ranks]

    @cached_property
    def main(self) -> int:
        """The part of the run that the reference is in."""
        ranks = [info.rank for info in self.ranks]
        place = ranks.index(self.reference) if self.reference in ranks else 0
        return int(self.start.component[place])

    @cached_property
    def anchors(self) -> Ints:
        """Matched calls of every rank."""
        return np.array([len(ends[0]) for ends in self.ends_of_ranks])

    @cached_property
    def loose(self) -> float:
        """How much farther clocks may be off where no clocks satisfy all instances: one has moved
        in a way that was not found, by as much as ends lie apart."""
        assert self.bounds is not None
        rest = np.abs(np.concatenate([rest for _, _, rest in self.ends_of_ranks]))
        if not self.bounds.slack_ns or not len(rest):
            return 0.0
        return float(2 * np.percentile(rest, FAR))

    @cached_property
    def probed(self) -> Floats:
        """The shortest round trip of probes of every rank, ns; inf without."""
        found = np.full(len(self.ranks), np.inf)
        for block in self.blocks:
            if block.key[1] == PROBED:
                np.minimum.at(found, block.ranks, 2 * float(block.transfer.min()))
        return found


@dataclass(frozen=True)
class Line:
    """A rank's clock over a stretch of its time: what to add at the middle, and how it changes."""

    low: float
    high: float
    added: float
    rate: float
    at: float
    open: float = 0.0
    """How much farther the truth may be off, as nobody knows when the clock stepped."""
    stepping: bool = False


def rows_of(answer: Answer, rank: int) -> list[Clock]:
    """The rows of a rank."""
    info = answer.ranks[rank]
    first, last = (float(edge - answer.origin_ns) for edge in (info.first_ns, info.last_ns))
    lines = _lines(answer, rank, first, max(last, first + 1))
    base = _row(answer, rank)
    method = [
        base.method,
        *["steps"] * bool(answer.steps_of(rank)),
        *["wander"] * answer.bends(rank),
    ]
    ends, tied, _ = answer.ends_of_ranks[rank]
    rows: list[Clock] = []
    for line in lines:
        at = _told_at(ends, tied, line, lone=len(lines) == 1)
        local = round(at)
        moved = line.added + line.rate * (local - line.at)
        count = (
            int(((ends >= line.low) & (ends <= line.high)).sum()) if len(lines) > 1 else len(ends)
        )
        bound = _bound(answer, rank, base.status, local, local + moved, line)
        moved += _moved(answer, rank)[0]
        rows.append(
            replace(
                base,
                from_local_ns=None
                if not rows
                else answer.origin_ns + int(line.low) + line.stepping,
                offset_ns=round(moved),
                drift_ppm=line.rate * 1e6,
                reference_local_ns=answer.origin_ns + local,
                bound_ns=bound,
                anchors=0 if line.stepping else count,
                method=", ".join(method),
            )
        )
    return rows


def _told_at(ends: Floats, tied: Flags, line: Line, lone: bool) -> float:
    """The moment that a row is told of: a call that ties the clock to others, near the middle."""
    if line.stepping:
        return (line.low + line.high) / 2
    here = (ends >= line.low) & (ends <= line.high) | lone
    some = ends[here & tied] if (here & tied).any() else ends[here]
    middle = (line.low + line.high) / 2
    return float(some[np.abs(some - middle).argmin()]) if len(some) else middle


def _lines(answer: Answer, rank: int, first: float, last: float) -> list[Line]:
    """A rank's clock as few lines, one after the other, with a line of its own wherever nobody
    knows whether it or its reference's has stepped."""
    gaps = _gaps(answer, rank)
    edges = [first, *(edge for gap in gaps for edge in (gap.low, gap.high)), last]
    lines: list[Line] = []
    for number in range(0, len(edges), 2):
        low, high = edges[number], edges[number + 1]
        lines += _smooth(answer, rank, low, max(high, low + 1))
        if number + 2 < len(edges):
            lines += _in_gap(answer, rank, lines[-1], gaps[number // 2])
    return lines


@dataclass(frozen=True)
class Gap:
    """A stretch of a rank's own time in which its clock or its reference's steps, the likeliest
    moment, and by how much in all."""

    low: float
    high: float
    at: float
    height: float

    def and_then(self, other: Gap) -> Gap:
        """Both as one."""
        high = max(self.high, other.high)
        return Gap(self.low, high, (self.low + high) / 2, self.height + other.height)


def _in_gap(answer: Answer, rank: int, before: Line, gap: Gap) -> list[Line]:
    """A step is told of the middle between the two calls that it most likely lies between. Nobody
    knows: what lies between two ends on one clock does so on the other, and that is how far a
    moment may be off."""
    goes = float(answer.added(rank, np.array([gap.high + 1]))[0])
    lines = []
    for edges, told in (((gap.low, gap.at), before.high), ((gap.at, gap.high), None)):
        at = (edges[0] + edges[1]) / 2
        added = goes if told is None else before.added + before.rate * (at - before.at)
        open_ = 0.75 * (gap.high - gap.low) + gap.height
        lines.append(Line(*edges, added, before.rate if told else 0.0, at, open_, True))
    return lines


def _gaps(answer: Answer, rank: int) -> list[Gap]:
    """Those of a rank, in order; those that overlap are one."""
    model, found = answer.model, []
    for step in answer.steps_of(rank):
        assert model is not None
        height = abs(float(model.height[model.steps.index(step)]))
        since, until = answer.span(step)
        low, before, after, high = sorted(
            answer.local(rank, t) for t in (since, step.since, step.until, until)
        )
        found.append(Gap(low, high, (before + after) / 2, height))
    merged: list[Gap] = []
    for gap in sorted(found, key=lambda gap: (gap.low, gap.high)):
        if merged and gap.low <= merged[-1].high:
            merged[-1] = merged[-1].and_then(gap)
        else:
            merged.append(gap)
    return merged


def _smooth(answer: Answer, rank: int, low: float, high: float) -> list[Line]:
    """The fewest lines, one as long as the other, that stay near the curve between two steps."""
    if not answer.bends(rank):
        return [_chord(answer, rank, low, high)]
    grid = np.linspace(low, high, 4 * MOST_LINES + 1)[1:-1]
    true = answer.added(rank, grid)
    count = 1
    while True:
        edges = np.linspace(low, high, count + 1)
        lines = [_chord(answer, rank, a, b) for a, b in itertools.pairwise(edges)]
        which = np.clip(np.searchsorted(edges, grid) - 1, 0, count - 1)
        told = np.array(
            [
                lines[k].added + lines[k].rate * (x - lines[k].at)
                for k, x in zip(which, grid, strict=True)
            ]
        )
        if count >= MOST_LINES or np.abs(told - true).max() <= NEAR_NS:
            return lines
        count *= 2


def _chord(answer: Answer, rank: int, low: float, high: float) -> Line:
    inner = low + (high - low) * np.array([1e-6, 1 - 1e-6])
    a, b = answer.added(rank, inner)
    rate = float((b - a) / (inner[1] - inner[0]))
    return Line(low, high, float(a + b) / 2, rate, (low + high) / 2)


def _moved(answer: Answer, rank: int) -> tuple[float, float]:
    """How far causality moves a rank's clock, and how far it would beyond what its ends allow: a
    few calls that contradict the many say that the clock has moved meanwhile."""
    assert answer.bounds is not None
    root = int(answer.roots[rank])
    by = float(answer.bounds.moved[rank] - answer.bounds.moved[root])
    rest = answer.ends_of_ranks[rank][2]
    if len(rest) >= FEW and abs(by) > np.percentile(np.abs(rest), MOVED):
        return 0.0, abs(by)
    return by, 0.0


def _open(answer: Answer, rank: int, at: float) -> float:
    """What the ends near a moment leave open: how far the median of those before, about and after
    it lies off, of a sixteenth of them, an eighth and so on."""
    tied, stretches = answer.stretches[rank]
    place, farthest = int(np.searchsorted(tied, at)), 0.0
    for size, since, off in stretches:
        last = len(tied) - size
        near = (since >= min(max(place - size, 0), last)) & (since <= min(place, last))
        farthest = max(farthest, float(off[near].max()))
    return farthest


def _stretches(rest: Floats) -> list[tuple[int, Ints, Floats]]:
    """Of stretches of a sixteenth of the ends, an eighth and so on, each half over the next: their
    size, where they begin, and how far their medians lie off, with their errors."""
    found, size = [], max(len(rest) // 16, 3)
    while size <= len(rest):
        last = len(rest) - size
        since = np.unique(np.r_[np.arange(0, last, size // 2), last])
        some = np.lib.stride_tricks.sliding_window_view(rest, size)[since]
        middle = np.median(some, axis=1)
        scatter = 1.4826 * np.median(np.abs(some - middle[:, None]), axis=1)
        found.append((size, since, np.abs(middle) + SIGMAS * 1.2533 * scatter / np.sqrt(size)))
        size *= 2
    return found


def _unseen(answer: Answer, rank: int, at: float, line: Line) -> float:
    """By how much the curve changes within two calls before and after: nobody knows when. Where no
    call ties a stretch of a clock that bends or steps, no more is known than that what lies between
    two ends on one clock does so on the other: it may have stepped there and back. Before the first
    and after the last, nothing is."""
    ends, tied, _ = answer.ends_of_ranks[rank]
    some = ends[tied]
    if not len(some) or not (answer.bends(rank) or answer.steps_of(rank)):
        return 0.0
    after = int(np.searchsorted(some, at, side="right"))
    before = int(np.searchsorted(some, at, side="left")) - 1
    if not line.stepping and not ((some >= line.low) & (some <= line.high)).any():
        if not 0 <= before < after < len(some):
            return np.inf
        between = some[[before, after]]
        told = at + line.added + line.rate * (at - line.at)
        return float(np.abs(between + answer.added(rank, between) - told).max())
    if not answer.bends(rank):
        return 0.0
    low, high = some[max(before - 1, 0)], some[min(after + 1, len(some) - 1)]
    return float(np.ptp(answer.added(rank, np.linspace(low, high, MOMENTS))))


def _bound(
    answer: Answer, rank: int, status: str, local: float, when: float, line: Line
) -> int | None:
    """How far the truth may be off what a line says at a moment; None if open."""
    root = int(answer.roots[rank])
    if status in ("wall clock", "unaligned"):
        return None
    if rank == root:
        return 0
    assert answer.bounds is not None
    farthest = max(answer.bounds.ahead[rank], answer.bounds.behind[rank])
    if not np.isfinite(farthest):
        return None
    by, against = _moved(answer, rank)
    error = answer.loose + against
    if answer.start.unit[rank] != answer.start.unit[root]:
        error += SIGMAS * float(answer.error(rank, np.array([when]))[0])
    proven = (
        farthest + answer.bounds.slack_ns + error + line.open + _unseen(answer, rank, local, line)
    )
    if answer.start.unit[rank] != answer.start.unit[root] and not np.isfinite(answer.probed[rank]):
        proven = max(proven, _open(answer, rank, local) + _open(answer, root, when) + abs(by))
    return int(np.ceil(proven)) + 1 if np.isfinite(proven) else None


def _row(answer: Answer, rank: int) -> Clock:
    """What all rows of a rank have in common."""
    root = int(answer.roots[rank])
    status, method = _status(answer, rank)
    _, tied, rest = answer.ends_of_ranks[rank]
    rest = np.abs(rest)
    p50: int | None = None
    p95: int | None = None
    if len(rest):
        all_, others = (
            np.percentile(some, [50, 95]) if len(some) else np.zeros(2)
            for some in (rest, rest[tied])
        )
        found = np.maximum(all_, others)
        if np.isfinite(answer.probed[rank]):
            found = np.minimum(found, answer.probed[rank] / 2)
        if _of_threads(answer, rank):
            found = np.minimum(found, SAME_NS)
        p50, p95 = (round(float(value)) for value in found)
    elif status in ("aligned", "same host") and _of_threads(answer, rank):
        p95 = round(SAME_NS)  # messages alone tell no clocks, and on one host need not
    if np.isfinite(answer.probed[rank]) and rank != root:
        method = f"clock probes, {method}"
    return Clock(
        answer.ranks[rank].rank, None, answer.ranks[root].rank, 0, 0.0, 0, None, p50, p95,
        0, method, status,
    )  # fmt: skip


def _of_threads(answer: Answer, rank: int) -> bool:
    """Whether threads that read one clock time all calls of a rank, its own and the others': ends
    that scatter say when they got a core, and nothing of the clock."""
    mates = np.flatnonzero(answer.start.unit == answer.start.unit[rank])
    if len(mates) == 1 or any(answer.ranks[mate].on_gpu for mate in mates):
        return False
    return not bool(answer.ends_of_ranks[rank][1].any())


def _status(answer: Answer, rank: int) -> tuple[str, str]:
    start, ranks = answer.start, answer.ranks
    main, component = answer.main, int(start.component[rank])
    root = start.roots[component]
    if component != main or (start.component == main).sum() == 1:
        return _without_connection(answer, rank, start.roots[main])
    if rank == root:
        return "aligned", "reference"
    if start.unit[rank] == start.unit[root]:
        if ranks[rank].host is None:
            return "aligned", "collective ends, as on one clock"
        return "same host", "host clock"
    if answer.anchors[rank] == 0:
        return "same host", "clock of the host's other ranks"
    if (start.unit == start.unit[rank]).sum() > 1:
        return "aligned", "collective ends, one clock per host"
    return "aligned", "collective ends"


def _without_connection(answer: Answer, rank: int, main_root: int) -> tuple[str, str]:
    """Nothing ties this rank to the reference: its wall clock has to do, if it is one."""
    own, main = answer.ranks[rank], answer.ranks[main_root]
    both_epoch = min(own.first_ns, main.first_ns) >= EPOCH_NS
    if both_epoch and abs(own.first_ns - main.first_ns) < DAY_NS:
        inside = (answer.start.component == answer.start.component[rank]).sum() > 1
        return (
            "wall clock",
            "wall clock, collective ends inside its part" if inside else "wall clock",
        )
    return "unaligned", "no collective, host or wall clock in common"
