"""The clock of every rank: its line or lines, what proves them, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.breaks import cut, find_break, local_border, moments_of
from traceweave.clocks.matrices import Block
from traceweave.clocks.piece import DRIFT_SPAN_NS, EPOCH_NS, Options, Piece, RankInfo, fit_piece
from traceweave.clocks.residuals import of_rank

DRIFT_MARGIN = 1e-4
"""Largest drift of a clock whose drift could not be fitted; widens its bound."""
MOST_CUTS = 5
"""Depth of division: a run is described by up to 32 pieces."""
DAY_NS = 86_400_000_000_000


@dataclass(frozen=True)
class Clock:
    """One row of the relation `clocks`."""

    rank: int
    from_local_ns: int | None
    reference_rank: int
    offset_ns: int
    drift_ppm: float
    reference_local_ns: int
    bound_ns: int | None
    residual_p50_ns: int | None
    residual_p95_ns: int | None
    anchors: int
    method: str
    status: str


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
    if len(ranks) == 1:
        return [_single(ranks[0])], 0
    options = Options(origin_ns, reference_rank, same_host)
    whole = fit_piece(ranks, blocks, options, DRIFT_SPAN_NS)
    pieces = _divide(whole, options, 0)
    if len(pieces) == 1:
        clocks = [_row(whole, rank, None, options) for rank in range(len(ranks))]
    else:
        clocks = _rows_of_pieces(whole, pieces, options)
    return clocks, int(max(piece.bounds.slack_ns for piece in pieces))


def _divide(whole: Piece, options: Options, depth: int) -> list[Piece]:
    """The stretches of time in which lines describe the clocks: the whole one, or its divided
    halves.
    """
    moments = moments_of(whole.blocks, whole.fit, whole.middle)
    if depth == MOST_CUTS or not moments:
        return [whole]
    if float(np.ptp(np.concatenate(moments))) < DRIFT_SPAN_NS / 2**depth:
        return [whole]
    border = find_break(whole.fit, moments)
    if border is None:
        return [whole]
    pieces: list[Piece] = []
    for half in cut(whole.blocks, moments, border):
        piece = fit_piece(whole.ranks, half, options, DRIFT_SPAN_NS / 10)
        if (piece.component != whole.component).any():
            return [whole]
        pieces += _divide(piece, options, depth + 1)
    return pieces


def _rows_of_pieces(whole: Piece, pieces: list[Piece], options: Options) -> list[Clock]:
    """Rows per rank and piece; a row that says the same as the one before is left out."""
    moments = moments_of(whole.blocks, whole.fit, whole.middle)
    positions = np.arange(len(whole.ranks))
    borders: list[Floats] = []
    for piece in pieces[1:]:
        first = [m.min() for m in moments_of(piece.blocks, whole.fit, whole.middle)]
        borders.append(local_border(whole.blocks, moments, float(min(first)), positions))
    clocks: list[Clock] = []
    for rank in range(len(whole.ranks)):
        rows = [_row(pieces[0], rank, None, options)]
        for piece, border in zip(pieces[1:], borders, strict=True):
            if not np.isnan(border[rank]):
                since = options.origin_ns + int(border[rank])
                row = _row(piece, rank, since, options)
                if (row.offset_ns, row.drift_ppm) != (rows[-1].offset_ns, rows[-1].drift_ppm):
                    rows.append(row)
        clocks += rows
    return clocks


def _single(info: RankInfo) -> Clock:
    middle = (info.first_ns + info.last_ns) // 2
    return Clock(
        info.rank, None, info.rank, 0, 0.0, middle, 0, None, None, 0, "single rank", "aligned"
    )


def _row(piece: Piece, rank: int, since: int | None, options: Options) -> Clock:
    moved = piece.moved
    info, component = piece.ranks[rank], int(piece.component[rank])
    root = piece.roots[component]
    status, method = _status(piece, rank, options.reference_rank)
    distances = np.abs(of_rank(piece.blocks, piece.fit.residuals, rank)[1])
    half = [None, None] if not len(distances) else np.percentile(distances, [50, 95])
    middle = int(piece.middle[rank])
    return Clock(
        info.rank,
        since,
        piece.ranks[root].rank,
        round(float(piece.fit.offset[rank] + moved[rank] - moved[root])),
        float(piece.fit.drift[rank] * 1e6),
        options.origin_ns + middle,
        _bound(piece, rank, root),
        None if half[0] is None else round(float(half[0])),
        None if half[1] is None else round(float(half[1])),
        int(piece.anchors[rank]),
        method,
        status,
    )


def _bound(piece: Piece, rank: int, root: int) -> int | None:
    """Distance from the estimate to the farther end of what causality allows; None if open."""
    if rank == root:
        return 0
    bounds, moved = piece.bounds, piece.moved
    here = moved[rank] - moved[root]
    farthest = max(bounds.upper[rank, root] - here, here + bounds.upper[root, rank])
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
    mates = piece.unit == piece.unit[rank]
    if piece.unit[rank] == piece.unit[root]:
        return "same host", "host clock"
    if piece.anchors[rank] == 0:
        return "same host", "clock of the host's other ranks"
    if mates.sum() > 1:
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
