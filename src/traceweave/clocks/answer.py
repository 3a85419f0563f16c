"""What is told of every clock: the rows of the table, their errors, bounds and status."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.bounds import Bounds, bounds_of
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.ends import ends_of
from traceweave.clocks.growth import fit_model
from traceweave.clocks.matrices import PROBED, Block
from traceweave.clocks.model import BEND, GPU, LINE, STEP, TINY, Model, functions
from traceweave.clocks.start import SAME_NS, SIGMAS, Start, start_from
from traceweave.medians import others_medians

EPOCH_NS = 1_000_000_000_000_000_000
"""Local times below this (the year 2001) do not count from the Unix epoch."""
DAY_NS = 86_400_000_000_000
NEAR_NS = 500.0
"""Lines stand for a curve that they leave by no more."""
MOST_LINES = 64
MOMENTS = 33
"""At which a curve is looked at between two calls."""
FEW = 20
"""Fewer ends overrule no call that contradicts them: each is more than 5 % of them."""


def fit_clocks(
    ranks: list[RankInfo],
    blocks: list[Block],
    origin_ns: int,
    *,
    reference_rank: int | None = None,
    same_host: bool = True,
) -> tuple[list[Clock], int]:
    """Return the clocks, a row or several per rank, and by how much, ns, causality had to be
    loosened to free it of contradictions. Times of `blocks` count from `origin_ns`.
    """
    ends = ends_of(blocks)
    start = start_from(ranks, ends, origin_ns, reference_rank, same_host)
    model = fit_model(ends, start, np.array([info.on_gpu for info in ranks])) if ends.rows else None
    wanted = np.flatnonzero([info.rank == reference_rank for info in ranks])
    main = int(wanted[0] if len(wanted) else start.root[0])
    answer = Answer(ranks, blocks, origin_ns, main, start, model)
    answer = replace(answer, bounds=bounds_of(answer.on_common_clock(), start.root))
    assert answer.bounds is not None
    rows = [row for rank in range(len(ranks)) for row in rows_of(answer, rank)]
    return rows, int(np.ceil(answer.bounds.slack_ns))


@dataclass(frozen=True)
class Jump:
    """A step of a rank's clock or its reference's, on the rank's own: since when and until when it
    may have been, the likeliest moment, and by how much."""

    low: float
    high: float
    at: float
    height: float


@dataclass(frozen=True)
class Seen:
    """The ends of a rank on its own clock, ascending, whether ranks of other clocks shared the
    call, and how far each lies after those of the other ranks."""

    ends: Floats
    tied: Flags
    rest: Floats


@dataclass(frozen=True)
class Line:
    """A rank's clock over a stretch of its time: what to add at the middle, and how it changes."""

    low: float
    high: float
    added: float
    rate: float
    open: float = 0.0
    """How much farther the truth may be off, as nobody knows when the clock stepped."""
    stepping: bool = False

    def at(self, local: float) -> float:
        """What to add then."""
        return self.added + self.rate * (local - (self.low + self.high) / 2)


@dataclass(frozen=True)
class Answer:
    """Clocks as fitted, and what their rows are made of."""

    ranks: list[RankInfo]
    blocks: list[Block]
    origin_ns: int
    main: int
    """The rank on whose clock the run is told, but for what nothing ties to it."""
    start: Start
    model: Model | None
    bounds: Bounds | None = None

    def apart(self, rank: int) -> bool:
        """Whether a rank reads another clock than its root."""
        return bool(self.start.unit[rank] != self.start.unit[self.start.root[rank]])

    @cached_property
    def coef(self) -> Floats:
        """Per clock: the multiples of its functions."""
        assert self.model is not None
        return self.model.coef

    @cached_property
    def gpu(self) -> Floats:
        """What the GPU of each rank is constantly off."""
        assert self.model is not None
        found = np.zeros(len(self.ranks))
        for name, value in zip(self.model.names, self.model.theta, strict=True):
            if name[0] == GPU:
                found[name[1]] = value
        return found

    def bends(self, rank: int) -> bool:
        """Whether a rank's clock or its reference's bends."""
        if self.model is None or not self.apart(rank):
            return False
        return bool(self.model.bend_var[self.model.unit[[rank, self.start.root[rank]]]].any())

    def added(self, rank: int, local: Floats) -> Floats:
        """What to add to local times of a rank."""
        total, model = self.start.added(np.array(rank), local), self.model
        if model is None:
            return total
        root = self.start.root[rank]
        if self.apart(rank):
            coef = self.coef[model.unit[rank]] - self.coef[model.unit[root]]
            total = total + functions(local + total, model.span) @ coef
            for jump in self.jumps[rank]:
                total = total + jump.height * (local >= jump.at)
        return np.asarray(total + self.gpu[rank] - self.gpu[root])

    @cached_property
    def jumps(self) -> list[list[Jump]]:
        """The steps of every rank's clock and its reference's, in order. A rank's own time of them
        is told by the ends of its clock about them: lines leave a clock where it steps."""
        model = self.model
        found: list[list[Jump]] = [[] for _ in self.ranks]
        if model is None or not model.steps:
            return found
        key, number = np.unique(model.of * model.ends.rows + model.ends.row, return_inverse=True)
        own = np.bincount(number, model.ends.local) / np.bincount(number)
        edges = np.searchsorted(key, np.arange(len(model.fixed) + 1) * model.ends.rows)
        for rank, root in enumerate(self.start.root):
            mine, other = model.unit[[rank, root]]
            here = slice(*edges[[mine, mine + 1]]) if mine != other else slice(0)
            when = model.when[key[here] % model.ends.rows]
            for step, height, span in zip(model.steps, model.height, model.spans, strict=True):
                if step.unit in (mine, other) and len(when):
                    edge = np.interp([*span, step.since, step.until], when, own[here])
                    low, before, after, high = np.sort(edge).tolist()
                    height = height if step.unit == mine else -height
                    found[rank].append(Jump(low, high, (before + after) / 2, float(height)))
            found[rank].sort(key=lambda jump: (jump.low, jump.high))
        return found

    @cached_property
    def known(self) -> tuple[Floats, Ints]:
        """The covariance of all unknowns that were fitted together, and whose each is: the clock's,
        or the rank's whose GPU it is."""
        assert self.model is not None
        count = len(self.model.hess)
        known = self.model.hess + np.diag(self.model.prior[:count] + TINY)
        cov = np.asarray(np.linalg.inv(known), np.float64)
        return cov, np.array([name[1] for name in self.model.names[:count]], np.int64)

    def error(self, rank: int, when: float) -> float:
        """Standard error of what is added, at a time of the common clock."""
        if self.model is None or not self.apart(rank):
            return 0.0
        model, (cov, whose), root = self.model, self.known, self.start.root[rank]
        kind = model.kind[: len(cov)]
        size = 1.0 * (kind == GPU)
        size[: len(model.which)] = functions(np.array([when]), model.span)[0][model.which]
        size[kind == STEP] = [when >= step.at for step in model.steps]
        mine, other = (np.where(kind == GPU, one, model.unit[one]) for one in (rank, root))
        row = size * (1.0 * (whose == mine) - (whose == other))
        used = np.flatnonzero(row)
        return float(np.sqrt(max(row[used] @ cov[np.ix_(used, used)] @ row[used], 0.0)))

    def on_common_clock(self) -> list[Block]:
        """The blocks as the fitted clocks show them; NaN where a clock may have stepped or not."""
        result = []
        for block in self.blocks:
            start, end = block.start.copy(), block.end.copy()
            for column, rank in enumerate(block.ranks.tolist()):
                for local in (start[:, column], end[:, column]):
                    told = local + self.added(rank, local)
                    for jump in self.jumps[rank]:
                        told[(local > jump.low + 1) & (local < jump.high - 1)] = np.nan
                    local[:] = told
            result.append(replace(block, start=start, end=end))
        return result

    @cached_property
    def seen(self) -> list[Seen]:
        """Of every rank."""
        count, model = len(self.ranks), self.model
        if model is None:
            return [Seen(np.zeros(0), np.zeros(0, np.bool_), np.zeros(0))] * count
        ends, told = model.ends, model.moved((LINE, BEND, STEP, GPU))
        rest = told - others_medians(told, ends.row)
        tied = ends.tying(model.unit)[ends.row]
        order = np.lexsort((ends.local, ends.rank))
        parts = np.split(order, np.searchsorted(ends.rank[order], np.arange(1, count)))
        return [Seen(ends.local[part], tied[part], rest[part]) for part in parts]

    @cached_property
    def loose(self) -> float:
        """How much farther clocks may be off where no clocks satisfy all instances: one has moved
        in a way that was not found, by as much as ends lie apart."""
        assert self.bounds is not None
        rest = np.abs(np.concatenate([seen.rest for seen in self.seen]))
        return float(2 * np.percentile(rest, 99)) if self.bounds.slack_ns and len(rest) else 0.0

    @cached_property
    def probed(self) -> Floats:
        """The shortest round trip of probes of every rank, ns; inf without."""
        found = np.full(len(self.ranks), np.inf)
        for block in self.blocks:
            if block.key[1] == PROBED:
                np.minimum.at(found, block.ranks, 2 * float(block.transfer.min()))
        return found


def rows_of(answer: Answer, rank: int) -> list[Clock]:
    """The rows of a rank."""
    info, ends = answer.ranks[rank], answer.seen[rank].ends
    first, last = (float(edge - answer.origin_ns) for edge in (info.first_ns, info.last_ns))
    lines = _lines(answer, rank, first, max(last, first + 1))
    base = _row(answer, rank)
    rows: list[Clock] = []
    for line in lines:
        at = _told_at(answer.seen[rank], line, lone=len(lines) == 1)
        here = (ends >= line.low) & (ends <= line.high) if len(lines) > 1 else ends == ends
        since = answer.origin_ns + int(line.low) + line.stepping if rows else None
        row = replace(
            base,
            from_local_ns=since,
            offset_ns=round(line.at(at) + _moved(answer, rank)[0]),
            drift_ppm=line.rate * 1e6,
            reference_local_ns=answer.origin_ns + at,
            bound_ns=_bound(answer, rank, base.status, at, line),
            anchors=0 if line.stepping else int(here.sum()),
        )
        rows.append(row)
    return rows


def _told_at(seen: Seen, line: Line, lone: bool) -> int:
    """The moment that a row is told of: a call that ties the clock to others, near the middle."""
    middle = (line.low + line.high) / 2
    here = (seen.ends >= line.low) & (seen.ends <= line.high) | lone
    some = seen.ends[here & seen.tied] if (here & seen.tied).any() else seen.ends[here]
    near = len(some) and not line.stepping
    return round(float(some[np.abs(some - middle).argmin()]) if near else middle)


def _lines(answer: Answer, rank: int, first: float, last: float) -> list[Line]:
    """A rank's clock as few lines, one after the other, with lines of their own wherever nobody
    knows whether it or its reference's has stepped."""
    gaps: list[Jump] = []
    for jump in answer.jumps[rank]:  # those that overlap are one
        jump = replace(jump, height=abs(jump.height))
        if gaps and jump.low <= gaps[-1].high:
            last_one = gaps.pop()
            high = max(last_one.high, jump.high)
            height = last_one.height + jump.height
            jump = Jump(last_one.low, high, (last_one.low + high) / 2, height)
        gaps.append(jump)
    lines: list[Line] = []
    for gap in gaps:
        lines += _smooth(answer, rank, first, max(gap.low, first + 1))
        lines += _in_gap(answer, rank, lines[-1], gap)
        first = gap.high
    return lines + _smooth(answer, rank, first, max(last, first + 1))


def _in_gap(answer: Answer, rank: int, before: Line, gap: Jump) -> list[Line]:
    """A step is told of the middle between the two calls that it most likely lies between. Nobody
    knows: what lies between two ends on one clock does so on the other, and that is how far a
    moment may be off."""
    goes = float(answer.added(rank, np.array([gap.high + 1]))[0])
    wide, told = 0.75 * (gap.high - gap.low) + gap.height, before.at((gap.low + gap.at) / 2)
    return [
        Line(gap.low, gap.at, told, before.rate, wide, stepping=True),
        Line(gap.at, gap.high, goes, 0.0, wide, stepping=True),
    ]


def _smooth(answer: Answer, rank: int, low: float, high: float) -> list[Line]:
    """The fewest lines, one as long as the other, that stay near the curve between two steps."""
    grid = np.linspace(low, high, 4 * MOST_LINES + 1)[1:-1]
    true, count = answer.added(rank, grid), 1
    while True:
        edges = np.linspace(low, high, count + 1)
        inner = np.clip(edges, low + 1e-6 * (high - low), high - 1e-6 * (high - low))
        added = answer.added(rank, inner)
        if count >= MOST_LINES or np.abs(np.interp(grid, inner, added) - true).max() <= NEAR_NS:
            rate = np.diff(added) / np.diff(inner)
            middle = (added[1:] + added[:-1]) / 2
            return [
                Line(*each) for each in np.stack([edges[:-1], edges[1:], middle, rate], 1).tolist()
            ]
        count *= 2


def _moved(answer: Answer, rank: int) -> tuple[float, float]:
    """How far causality moves a rank's clock, and how far it would beyond what its ends allow: a
    few calls that contradict the many say that the clock has moved meanwhile."""
    assert answer.bounds is not None
    root = int(answer.start.root[rank])
    by = float(answer.bounds.moved[rank] - answer.bounds.moved[root])
    rest = answer.seen[rank].rest
    if len(rest) >= FEW and abs(by) > np.median(np.abs(rest)):
        return 0.0, abs(by)
    return by, 0.0


def _unseen(answer: Answer, rank: int, at: float, line: Line) -> float:
    """By how much the curve changes within two calls before and after: nobody knows when. Where no
    call ties a stretch of a clock that bends or steps, no more is known than that what lies between
    two ends on one clock does so on the other: it may have stepped there and back. Before the first
    and after the last, nothing is."""
    some = answer.seen[rank].ends[answer.seen[rank].tied]
    if not len(some) or not (answer.bends(rank) or answer.jumps[rank]):
        return 0.0
    after = int(np.searchsorted(some, at, side="right"))
    before = int(np.searchsorted(some, at, side="left")) - 1
    if not line.stepping and not ((some >= line.low) & (some <= line.high)).any():
        if not 0 <= before < after < len(some):
            return np.inf
        between = some[[before, after]]
        return float(np.abs(between + answer.added(rank, between) - at - line.at(at)).max())
    if not answer.bends(rank):
        return 0.0
    low, high = some[max(before - 3, 0)], some[min(after + 3, len(some) - 1)]
    return float(np.ptp(answer.added(rank, np.linspace(low, high, MOMENTS))))


def _bound(answer: Answer, rank: int, status: str, at: float, line: Line) -> int | None:
    """How far the truth may be off what a line says at a moment; None if open."""
    bounds, root = answer.bounds, int(answer.start.root[rank])
    assert bounds is not None
    farthest = max(bounds.ahead[rank], bounds.behind[rank])
    if status in ("wall clock", "unaligned") or not np.isfinite(farthest):
        return None
    if rank == root:
        return 0
    by, against = _moved(answer, rank)
    proven = farthest + bounds.slack_ns + answer.loose + against + line.open
    proven += SIGMAS * answer.error(rank, at + line.at(at)) + _unseen(answer, rank, at, line)
    if answer.apart(rank) and not np.isfinite(answer.probed[rank]):
        off = [np.abs(answer.seen[one].rest) for one in (rank, root)]
        proven = max(proven, abs(by) + sum(np.percentile(some, 95) for some in off if len(some)))
    return int(np.ceil(proven)) + 1 if np.isfinite(proven) else None


def _row(answer: Answer, rank: int) -> Clock:
    """What all rows of a rank have in common."""
    root = int(answer.start.root[rank])
    status, method = _status(answer, rank)
    method += ", steps" * bool(answer.jumps[rank]) + ", wander" * answer.bends(rank)
    tied, rest = answer.seen[rank].tied, np.abs(answer.seen[rank].rest)
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
    return not bool(answer.seen[rank].tied.any())


def _status(answer: Answer, rank: int) -> tuple[str, str]:
    start, ranks, main = answer.start, answer.ranks, answer.main
    root = int(start.root[rank])
    if root != main or (start.root == main).sum() == 1:
        # nothing ties this rank to the reference: its wall clock has to do, if it is one
        first, other = ranks[rank].first_ns, ranks[main].first_ns
        if min(first, other) < EPOCH_NS or abs(first - other) >= DAY_NS:
            return "unaligned", "no collective, host or wall clock in common"
        inside = ", collective ends inside its part" * bool((start.root == root).sum() > 1)
        return "wall clock", f"wall clock{inside}"
    if rank == root:
        return "aligned", "reference"
    if not answer.apart(rank):
        if ranks[rank].host is None:
            return "aligned", "collective ends, as on one clock"
        return "same host", "host clock"
    if not len(answer.seen[rank].ends):
        return "same host", "clock of the host's other ranks"
    mates = (start.unit == start.unit[rank]).sum() > 1
    return "aligned", "collective ends" + ", one clock per host" * bool(mates)
