"""One stretch of time: a line per clock, hosts that share one, and what causality proves of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from itertools import combinations, product

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.bounds import Bounds, close, pairwise
from traceweave.clocks.clock import RankInfo
from traceweave.clocks.first_estimate import connect, rough_clocks
from traceweave.clocks.fit import Fit, refine, unfitted
from traceweave.clocks.matrices import Block, columns_of_ranks
from traceweave.clocks.wide_bounds import WideBounds, bound_widely
from traceweave.medians import distances_of_parts, medians_of_parts

DRIFT_SPAN_NS = 200_000_000
"""No drift is fitted to anchors that span less."""
EPOCH_NS = 1_000_000_000_000_000_000
"""Local times below this (the year 2001) do not count from the Unix epoch."""
SETTLED_NS = 20.0
"""Clocks have settled when a further round moves no offset farther,"""
TOLD_NS = 500.0
"""or this far, where it is only asked which of a host's ranks share one."""
HOST_NS = 20_000.0
"""Ranks of one host whose clocks lie farther apart do not share one: the conversion of a GPU's
timestamps costs some microseconds, 73 us on some V100 hosts.
"""
MANY = 256
"""Ranks from which on bounds are not computed between all pairs."""
LEAST_ANCHORS = 32
"""No drift is fitted to fewer."""
FEW = 20
"""Fewer ends of a clock overrule no call that contradicts them: each is more than 5 % of them."""
PARTS = 8
"""Stretches in which ends of threads may be of one clock, at most,"""
PART = 16
"""and calls in each, but for the last ones."""


@dataclass(frozen=True)
class Options:
    """How to fit: where times count from, whose clock is the common one, whether hosts matter."""

    origin_ns: int
    reference_rank: int | None
    same_host: bool


@dataclass
class Piece:
    """One stretch of time and what is known of its clocks; arrays have one value per rank."""

    ranks: list[RankInfo]
    blocks: list[Block]
    component: Ints
    roots: dict[int, int]
    """Per component: the position of the rank whose clock it uses."""
    unit: Ints
    """Ranks with one number share a clock."""
    middle: Floats
    anchors: Ints
    span: Floats
    fit: Fit
    host: Ints
    """Ranks with one number are on one host, as far as names say."""
    apart: set[tuple[int, int]] = field(default_factory=set)
    """Ranks of one named host, the smaller first, whose threads do not read one clock."""
    bounds: Bounds | WideBounds = field(init=False)
    moved: Floats = field(init=False)
    """What the bounds make of an offset correction of 0."""


def fit_piece(ranks: list[RankInfo], blocks: list[Block], options: Options) -> Piece:
    """Fit lines, hosts, and what causality says of them."""
    piece = _start(ranks, blocks, options)
    hosts = _named_hosts(ranks) if options.same_host else []
    if hosts:
        _tie_threads(piece, hosts)
        piece.fit = _fit(piece, TOLD_NS)
        _tie_hosts(piece, hosts, options.reference_rank)
    piece.fit = _fit(piece, SETTLED_NS)
    find_bounds(piece)
    return piece


def find_bounds(piece: Piece, doubt: Floats | None = None) -> None:
    """Find what causality proves of clocks as they are fitted, each of which may at times be off by
    its `doubt`, ns, and move them as little as that asks; those of few ends, as that asks without.
    """
    count = len(piece.ranks)
    piece.bounds = bounds = bounds_of(piece, doubt)
    few = np.bincount(piece.unit, piece.anchors)[piece.unit] < FEW
    if doubt is not None and doubt[few].any():
        bounds = bounds_of(piece, np.where(few, 0.0, doubt))
    order = sorted(range(count), key=lambda r: (not is_root(piece, r), -piece.anchors[r], r))
    piece.moved = bounds.moved(order)


def bounds_of(piece: Piece, doubt: Floats | None = None) -> Bounds | WideBounds:
    """Return what causality proves of clocks as they are fitted, given how far they may be off."""
    blocks, count = on_common_clock(piece), len(piece.ranks)
    if doubt is not None:
        blocks = [block.doubted(doubt) for block in blocks]
    if count > MANY and blocks:
        return bound_widely(blocks, count, sorted(piece.roots.values()))
    return close(pairwise(blocks, count))


def _start(ranks: list[RankInfo], blocks: list[Block], options: Options) -> Piece:
    """First estimate; lines turn about the middle of the recording."""
    count = len(ranks)
    middle = np.array(
        [(r.first_ns + r.last_ns) // 2 - options.origin_ns for r in ranks], dtype=np.float64
    )
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    anchors = np.zeros(count, dtype=np.int64)
    for block in blocks:
        np.minimum.at(first, block.ranks, np.fmin.reduce(block.end, axis=0, initial=np.inf))
        np.maximum.at(last, block.ranks, np.fmax.reduce(block.end, axis=0, initial=-np.inf))
        np.add.at(anchors, block.ranks, np.isfinite(block.end).sum(axis=0))
    first[anchors == 0] = last[anchors == 0] = 0.0
    span = last - first
    component, tree = connect(blocks, count)
    roots = _roots(ranks, component, options.reference_rank)
    fit = unfitted(*rough_clocks(blocks, tree, sorted(roots.values()), middle))
    return Piece(
        ranks,
        blocks,
        component,
        roots,
        np.arange(count),
        middle,
        anchors,
        span,
        fit,
        _hosts(ranks, options),
    )


def _hosts(ranks: list[RankInfo], options: Options) -> Ints:
    """A number per host; ranks whose host is unknown, or does not matter, have their own."""
    names = [
        (info.host if options.same_host else None) or f"rank {position}"
        for position, info in enumerate(ranks)
    ]
    return np.asarray(np.unique(names, return_inverse=True)[1], dtype=np.int64)


def _roots(ranks: list[RankInfo], component: Ints, reference: int | None) -> dict[int, int]:
    """Smallest rank of each component, or the wanted reference where it belongs to it."""
    roots: dict[int, int] = {}
    for position, info in enumerate(ranks):
        number = int(component[position])
        if number not in roots or info.rank == reference:
            roots[number] = position
    return roots


def is_root(piece: Piece, rank: int) -> bool:
    """Whether the rank's clock is the common one of its component."""
    return piece.roots[int(piece.component[rank])] == rank


def _fixed(piece: Piece) -> Flags:
    """Ranks whose clock is a component's reference."""
    return np.isin(piece.unit, piece.unit[sorted(piece.roots.values())])


def _fit(piece: Piece, settled_ns: float) -> Fit:
    """Fit all clocks until they settle, with drifts where the anchors are many and span enough.

    Whether a clock has a drift depends on nothing that the clock says, nor is a small offset or
    drift taken for none: what is added to a clock comes out of the answer again, whatever it is.
    """
    if not piece.blocks:
        return piece.fit
    fixed = _fixed(piece)
    drifting = ~fixed & (piece.span >= DRIFT_SPAN_NS) & (piece.anchors >= LEAST_ANCHORS)
    for number in np.unique(piece.unit):
        members = piece.unit == number
        drifting[members] = drifting[members].any()
    count = np.bincount(piece.unit)[piece.unit]
    sharing = (count > 1) & ~np.isin(np.arange(len(count)), sorted(piece.roots.values()))
    sharing &= [info.on_gpu for info in piece.ranks]
    clocks = piece.unit, fixed, drifting, sharing
    return refine(piece.blocks, piece.fit, piece.middle, *clocks, settled_ns)


def _tie_threads(piece: Piece, hosts: list[list[int]]) -> None:
    """Give ranks of one host whose threads time their calls its clock, before anything is fitted:
    nothing converts what they read, and they end when they get a core, which no fit can tell from a
    clock that is behind. Those that causality tells apart as they are, or ends of any stretch of
    time by more than they scatter in it, only have a host of the same name.
    """
    columns = [dict(places) for places in columns_of_ranks(piece.blocks, len(piece.ranks))]
    said = cache(partial(_one_clock, piece.blocks, columns))
    for members in hosts:
        threads = [member for member in members if not piece.ranks[member].on_gpu]
        for first, other in combinations(threads, 2):
            mine, theirs = (mates_of(piece, rank) for rank in (first, other))
            if other in mine:
                continue
            found = {said(*sorted(pair)) for pair in product(mine, theirs)}
            if True in found and False not in found:
                piece.unit[theirs] = piece.unit[first]
        piece.apart |= {pair for pair in combinations(threads, 2) if said(*pair) is False}
        _even(piece, threads)


def mates_of(piece: Piece, rank: int) -> list[int]:
    """Return the ranks that share a rank's clock, itself included."""
    return np.flatnonzero(piece.unit == piece.unit[rank]).tolist()


def _threads_apart(piece: Piece, first: int, other: int) -> bool:
    """Whether the clocks of two ranks have threads that do not read one clock."""
    if not piece.apart:
        return False
    pairs = product(mates_of(piece, first), mates_of(piece, other))
    return not piece.apart.isdisjoint((min(pair), max(pair)) for pair in pairs)


def _one_clock(
    blocks: list[Block], columns: list[dict[int, int]], first: int, other: int
) -> bool | None:
    """Whether the calls of two ranks allow that their times are of one clock; None without any."""
    shared = [
        blocks[n].of_columns(np.array([columns[first][n], columns[other][n]]), np.arange(2))
        for n in columns[first].keys() & columns[other].keys()
    ]
    end = np.concatenate([np.zeros((0, 2)), *(block.end for block in shared)])
    if not len(end):
        return None
    if pairwise([block for block in shared if len(block.end)], 2).min() < 0:
        return False
    apart = np.diff(end[end[:, 0].argsort()]).ravel()
    medians = medians_of_parts(apart, min(PARTS, -(-len(apart) // PART)))
    scatter = float(np.percentile(distances_of_parts(apart, medians), 95))
    return bool(np.abs(medians).max() <= max(HOST_NS, scatter))


def _named_hosts(ranks: list[RankInfo]) -> list[list[int]]:
    """The ranks of each host that has a name and several of them."""
    hosts: dict[str, list[int]] = {}
    for position, info in enumerate(ranks):
        if info.host is not None:
            hosts.setdefault(info.host, []).append(position)
    return [members for members in hosts.values() if len(members) > 1]


def _tie_hosts(piece: Piece, hosts: list[list[int]], reference: int | None) -> None:
    """Give ranks of one host one clock where the data allow it."""
    bounds = bounds_of(piece)
    for members in hosts:
        _tie(piece, bounds, members, reference)


def _tie(
    piece: Piece, bounds: Bounds | WideBounds, members: list[int], reference: int | None
) -> None:
    """Tie the members of one host whose offsets agree, and join components they connect."""
    at = float(np.median(piece.middle[members]))
    offset, drift = piece.fit.offset, piece.fit.drift
    upper = bounds.within(members)
    for one, first in enumerate(members):
        for two, other in enumerate(members):
            if other == first or piece.unit[other] == piece.unit[first]:
                continue
            if piece.component[other] != piece.component[first]:
                _join(piece, first, other, at, reference)
                continue
            apart = float(
                offset[other]
                + drift[other] * (at - piece.middle[other])
                - offset[first]
                - drift[first] * (at - piece.middle[first])
            )
            allowed = -upper[two, one] <= apart <= upper[one, two]
            if abs(apart) <= HOST_NS and allowed and not _threads_apart(piece, first, other):
                piece.unit[piece.unit == piece.unit[other]] = piece.unit[first]
    _even(piece, members)


def _even(piece: Piece, members: list[int]) -> None:
    """Number the clocks anew, and make the lines of those that became one the same."""
    offset, drift = piece.fit.offset, piece.fit.drift
    piece.unit = np.asarray(np.unique(piece.unit, return_inverse=True)[1], dtype=np.int64)
    for position in members:
        mates = piece.unit == piece.unit[position]
        if mates.sum() > 1:
            middle = float(np.median(piece.middle[mates]))
            offset[mates] = np.median(offset[mates] + drift[mates] * (middle - piece.middle[mates]))
            drift[mates] = np.median(drift[mates])
            piece.middle[mates] = middle
            if _fixed(piece)[position]:
                offset[mates] = drift[mates] = 0.0


def _join(piece: Piece, first: int, other: int, at: float, reference: int | None) -> None:
    """Bring the component of `other` on that of `first`: the two share the host's clock."""
    offset, drift = piece.fit.offset, piece.fit.drift
    here = offset[first] + drift[first] * (at - piece.middle[first])
    there = offset[other] + drift[other] * (at - piece.middle[other])
    old = int(piece.component[other])
    joining = piece.component == old
    offset[joining] += here - there
    piece.component[joining] = piece.component[first]
    piece.unit[piece.unit == piece.unit[other]] = piece.unit[first]
    piece.roots = _roots(piece.ranks, piece.component, reference)
    for root in piece.roots.values():
        inside = piece.component == piece.component[root]
        offset[inside] -= offset[root]


def on_common_clock(piece: Piece) -> list[Block]:
    """Return the blocks as the fitted clocks show them."""
    fit = piece.fit
    return [block.shifted(fit.offset, fit.drift, piece.middle) for block in piece.blocks]
