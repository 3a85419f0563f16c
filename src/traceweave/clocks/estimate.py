"""The clock of every rank: its line or lines, what proves them, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from traceweave.arrays import Flags, Floats
from traceweave.clocks.bending import find_bends
from traceweave.clocks.bends import Bend, straightened
from traceweave.clocks.clock import Clock, RankInfo
from traceweave.clocks.matrices import Block, columns_of_ranks
from traceweave.clocks.near_ends import Lateness, in_order, late_against
from traceweave.clocks.piece import (
    EPOCH_NS,
    FEW,
    HOST_NS,
    Options,
    Piece,
    find_bounds,
    fit_piece,
    mates_of,
    on_common_clock,
)
from traceweave.clocks.probes import quickest
from traceweave.clocks.residuals import between_clocks, of_rank, strays
from traceweave.clocks.steps import LEAST_NS
from traceweave.clocks.stretches import Stretch, stretches_of
from traceweave.clocks.ties import stretch_at, tied_stretches

DRIFT_LIMIT = 2e-4
"""No clock runs faster against another."""
DRIFT_MARGIN = 1e-4
"""Largest drift of a clock whose drift could not be fitted; widens its bound."""
TURNS = 8
"""How often at most lines and bends are found beside each other."""
SETTLED_NS = 500.0
DAY_NS = 86_400_000_000_000


def fit_clocks(
    ranks: list[RankInfo],
    blocks: list[Block],
    origin_ns: int,
    *,
    reference_rank: int | None = None,
    same_host: bool = True,
) -> tuple[list[Clock], int]:
    """Return the clocks and by how much, ns, causality had to be loosened to free it of
    contradictions.
    """
    options = Options(origin_ns, reference_rank, same_host)
    piece, bends = _fit_bent(fit_piece(ranks, blocks, options), options)
    columns = columns_of_ranks(blocks, len(ranks))
    halves = _distances(piece, columns)
    doubt = _doubt(piece, bends, halves[:, 1])
    slack = int(piece.bounds.slack_ns)
    if doubt.any():
        find_bounds(piece, doubt)
    met = between_clocks(piece.blocks, piece.fit.residuals, piece.unit)
    straight = all(bend.straight for bend in bends)  # as most are, of which no stretch is asked
    tied = [] if straight else tied_stretches(piece, bends, [block.end for block in blocks])
    tying = met if straight else _tying(piece, bends)
    answer = _Answer(piece, bends, blocks, columns, halves, met, tying, tied, options)
    return [row for rank in range(len(ranks)) for row in _rows(answer, rank)], slack


@dataclass(frozen=True)
class _Answer:
    """Clocks as they are fitted, and what their rows are made of; lists have one item per rank."""

    piece: Piece
    bends: list[Bend]
    blocks: list[Block]
    """As recorded."""
    columns: list[list[tuple[int, int]]]
    """In which blocks each rank is, and in which column."""
    halves: Floats
    """How far half and 95 % of each rank's ends lie from where they should."""
    met: list[Floats]
    """Per block: the residuals of instances that ranks of several clocks share; NaN elsewhere."""
    tying: list[Floats]
    """The same of clocks that do not bend alike."""
    tied: list[Flags]
    """Which stretches of each rank's clock between its steps are tied to its reference's; empty
    where no clock bends."""
    options: Options


def _fit_bent(piece: Piece, options: Options) -> tuple[Piece, list[Bend]]:
    """Lines and bends in turns, since each is found beside the other, until they settle."""
    blocks, bends = piece.blocks, [Bend()] * len(piece.ranks)
    for _ in range(TURNS):
        found = find_bends(blocks, piece, bends)
        if found is None:
            break
        before, bends = piece, found
        piece = fit_piece(piece.ranks, straightened(blocks, bends), options)
        if _settled(before, piece):
            break
    return piece, bends


def _settled(before: Piece, after: Piece) -> bool:
    """Whether most ends stay where they were on the common clock, and none changes sides of a
    step."""
    moves = [
        np.abs(new.end - old.end).ravel()
        for new, old in zip(on_common_clock(after), on_common_clock(before), strict=True)
    ]
    most, farthest = np.nanpercentile(np.concatenate(moves), [95, 100])
    return bool(most < SETTLED_NS and farthest < LEAST_NS)


def _doubt(piece: Piece, bends: list[Bend], far: Floats) -> Floats:
    """By how much every clock may at times be off what was fitted, ns; `far`: no farther lie most
    of its ends.
    """
    doubt = strays(piece.blocks, piece.fit.clean, piece.unit) + [bend.unsure for bend in bends]
    # no clock runs so fast: it has moved in a way that ends do not show, by about as much
    drift = np.abs(piece.fit.drift)
    doubt += np.where(drift > DRIFT_LIMIT, drift, 0) * piece.span / 2
    # calls that lie elsewhere than the many ends that lie together: it has moved meanwhile
    doubt += np.where(np.abs(piece.moved) > far, np.abs(piece.moved), 0)
    if piece.bounds.slack_ns:
        # some clock has moved by that at least, and a transfer is what single calls prove it to
        longest = np.zeros(len(bends))
        for block in piece.blocks:
            np.maximum.at(longest, block.ranks, np.median(block.transfer))
        doubt = doubt + piece.bounds.slack_ns + longest
    return np.asarray(doubt, dtype=np.float64)


def _rows(answer: _Answer, rank: int) -> list[Clock]:
    """A rank's rows: one, or one per stretch of its bend.

    What a row says of the clock it says of a moment at which ends tell it, if there is one: ends of
    calls that it shares with its reference's, which may have stepped when it only met others.
    """
    piece, options, bend = answer.piece, answer.options, answer.bends[rank]
    row, late = _row(answer, rank), _late(answer, rank)
    info, middle, drift = piece.ranks[rank], piece.middle[rank], piece.fit.drift[rank]
    columns = answer.columns[rank]
    ends = np.sort(of_rank(answer.blocks, piece.fit.residuals, columns)[0])
    ties = np.sort(of_rank(answer.blocks, answer.tying, columns)[0])
    first, last = (float(edge - options.origin_ns) for edge in (info.first_ns, info.last_ns))
    if bend.straight:
        at = round(_nearest(late.told if len(late.told) else ties, middle))
        moved = row.offset_ns + round(float(drift * (at - middle)))
        bound = _at_least(row.bound_ns, late.left_open(at, first, last))
        local = options.origin_ns + at
        return [replace(row, offset_ns=moved, reference_local_ns=local, bound_ns=bound)]
    lines = stretches_of(bend, first, last)
    wanders = len({line.turn for line in lines}) > 1
    model = [row.method, *["steps"] * bool(bend.steps), *["wander"] * wanders]
    rows: list[Clock] = []
    for line in lines:
        told = _inside(late.told, line)
        at = round(_nearest(told if len(told) else _inside(ties, line), line.middle))
        moves = abs(line.turn) * _widest_gap(ties, line)
        turn = drift * (1 + line.turn) + line.turn
        ahead = line.ahead + line.turn * (at - line.middle)
        bound = _wider(row.bound_ns, line.open + moves)
        tied = [answer.tied[rank][stretch_at(bend, edge)] for edge in (line.low, line.high)]
        bound = bound if all(tied) else None
        if not line.stepping:
            bound = _at_least(bound, late.left_open(at, line.low, line.high))
        rows.append(
            replace(
                row,
                from_local_ns=_since(line, options) if rows else None,
                offset_ns=row.offset_ns + round(float(ahead + drift * (at + ahead - middle))),
                drift_ppm=float(turn * 1e6),
                reference_local_ns=options.origin_ns + at,
                bound_ns=bound,
                residual_p95_ns=_wider(row.residual_p95_ns, bend.unsure + line.unsure + moves),
                anchors=0 if line.stepping else _count(ends, line),
                method=", ".join(model),
            )
        )
    return rows


def _late(answer: _Answer, rank: int) -> Lateness:
    """How late a rank's ends are against those of the clock of its reference; or, where the two
    share no call, how late each of them is against others. Few cannot tell lags from steps. What
    probes prove no ends leave open.
    """
    piece = answer.piece
    root = piece.roots[int(piece.component[rank])]
    if rank == root or quickest(piece.blocks, answer.columns[rank]) is not None:
        return Lateness(())
    found = _series(answer, piece.fit.rests, rank, root)
    if min(len(at) for at, _ in found) < FEW:
        found = _series(answer, piece.fit.whole, rank, root)
    return Lateness(found, float(piece.moved[rank] - piece.moved[root]))


def _series(
    answer: _Answer, late: list[Floats], rank: int, root: int
) -> tuple[tuple[Floats, Floats], ...]:
    piece, blocks, columns = answer.piece, answer.blocks, answer.columns
    shared = late_against(blocks, late, columns[rank], piece.unit == piece.unit[root])
    if len(shared[0]):
        return (shared,)
    mine, theirs = (of_rank(blocks, late, columns[one]) for one in (rank, root))
    ahead = float(piece.fit.offset[rank])
    return in_order(*mine), in_order(theirs[0] - ahead, theirs[1])


def _tying(piece: Piece, bends: list[Bend]) -> list[Floats]:
    """The residuals of the instances that ranks share whose clocks do not bend alike; NaN
    elsewhere."""
    clock = np.array([bend.cluster for bend in bends])
    return between_clocks(piece.blocks, piece.fit.residuals, clock)


def _inside(ends: Floats, line: Stretch) -> Floats:
    """The ends that tell a line; none where a clock stepped meanwhile."""
    return ends[(line.low <= ends) & (ends <= line.high) & (not line.stepping)]


def _nearest(ends: Floats, at: float) -> float:
    """The end nearest to a moment, or that moment where there are none."""
    return float(ends[np.abs(ends - at).argmin()]) if len(ends) else float(at)


def _since(line: Stretch, options: Options) -> int:
    """Start of a row; the anchor before a step still belongs to the row before."""
    return options.origin_ns + (int(line.low) + 1 if line.stepping else round(line.low))


def _widest_gap(ends: Floats, line: Stretch) -> float:
    """Longest time of a line without an anchor, ns: nobody knows when in it the clock moved."""
    low, high = np.searchsorted(ends, [line.low, line.high])
    edges = np.clip(ends[max(low - 1, 0) : high + 1], line.low, line.high)
    return float(np.diff(edges, prepend=line.low, append=line.high).max())


def _count(ends: Floats, line: Stretch) -> int:
    return int(np.sum((ends >= line.low) & (ends <= line.high)))


def _wider(value: int | None, by: float) -> int | None:
    return None if value is None else value + round(by)


def _at_least(value: int | None, least: float) -> int | None:
    return None if value is None else max(value, int(np.ceil(least)))


def _row(answer: _Answer, rank: int) -> Clock:
    """A rank's line."""
    piece, options, half = answer.piece, answer.options, answer.halves[rank]
    moved = piece.moved
    info, component = piece.ranks[rank], int(piece.component[rank])
    root = piece.roots[component]
    status, method = _status(piece, rank, options.reference_rank)
    bound, round_trip = _bound(piece, rank, root), quickest(piece.blocks, answer.columns[rank])
    if status in ("wall clock", "unaligned"):
        bound = None
    if round_trip is not None and bound is not None:
        method = f"clock probes, {method}" if rank != root else method
        # what is proven of a clock is no worse than ends that scatter
        half = np.minimum(half, max(bound, round_trip / 2))
    if _of_threads(answer, rank):
        half = np.minimum(half, HOST_NS)
    p50, p95 = (None if np.isnan(value) else round(float(value)) for value in half)
    middle = int(piece.middle[rank])
    return Clock(
        info.rank,
        None,
        piece.ranks[root].rank,
        round(float(piece.fit.offset[rank] + moved[rank] - moved[root])),
        float(piece.fit.drift[rank] * 1e6),
        options.origin_ns + middle,
        bound,
        p50,
        p95,
        int(piece.anchors[rank]),
        method,
        status,
    )


def _of_threads(answer: _Answer, rank: int) -> bool:
    """Whether threads that read one clock time all calls of a rank, its own and the others': ends
    that scatter say when they got a core, and nothing of the clock.
    """
    piece, columns = answer.piece, answer.columns[rank]
    mates = mates_of(piece, rank)
    if len(mates) == 1 or any(piece.ranks[mate].on_gpu for mate in mates):
        return False
    return not len(of_rank(piece.blocks, answer.met, columns)[0])


def _distances(piece: Piece, columns: list[list[tuple[int, int]]]) -> Floats:
    """Median and 95th percentile of how far each rank's ends lie from the common end: of all, or
    of those that it shares with other clocks, if they lie farther; NaN without ends.
    """
    half = np.full((len(columns), 2), np.nan)
    residuals = piece.fit.residuals
    for values in (residuals, between_clocks(piece.blocks, residuals, piece.unit)):
        for rank, own in enumerate(columns):
            distances = np.abs(of_rank(piece.blocks, values, own)[1])
            if len(distances):
                half[rank] = np.fmax(half[rank], np.percentile(distances, [50, 95]))
    return half


def _bound(piece: Piece, rank: int, root: int) -> int | None:
    """Distance from the estimate to the farther end of what causality allows; None if open."""
    if rank == root:
        return 0
    bounds, moved = piece.bounds, piece.moved
    here = moved[rank] - moved[root]
    ahead, behind = bounds.against(rank, root)
    farthest = max(ahead - here, here + behind)
    if not np.isfinite(farthest):
        return None
    margin = 0.0
    if piece.unit[rank] != piece.unit[root]:
        error = 3 * piece.fit.drift_error[rank]
        margin = min(float(error), DRIFT_MARGIN) * float(piece.span[rank]) / 2
    return int(np.ceil(farthest + margin)) + 1


def _status(piece: Piece, rank: int, reference: int | None) -> tuple[str, str]:
    main = _main_component(piece, reference)
    component = int(piece.component[rank])
    root = piece.roots[component]
    if component != main or (piece.component == main).sum() == 1:
        return _without_connection(piece, rank, piece.roots[main])
    if rank == root:
        return "aligned", "reference"
    if piece.unit[rank] == piece.unit[root]:
        return "same host", "host clock"
    if piece.anchors[rank] == 0:
        return "same host", "clock of the host's other ranks"
    if len(mates_of(piece, rank)) > 1:
        return "aligned", "collective ends, one clock per host"
    return "aligned", "collective ends"


def _main_component(piece: Piece, reference: int | None) -> int:
    for position, info in enumerate(piece.ranks):
        if info.rank == reference:
            return int(piece.component[position])
    return int(piece.component[0])


def _without_connection(piece: Piece, rank: int, main_root: int) -> tuple[str, str]:
    """Nothing ties this rank to the reference: its wall clock has to do, if it is one."""
    own, main = piece.ranks[rank], piece.ranks[main_root]
    both_epoch = min(own.first_ns, main.first_ns) >= EPOCH_NS
    if both_epoch and abs(own.first_ns - main.first_ns) < DAY_NS:
        inside = (piece.component == piece.component[rank]).sum() > 1
        return (
            "wall clock",
            "wall clock, collective ends inside its part" if inside else "wall clock",
        )
    return "unaligned", "no collective, host or wall clock in common"
