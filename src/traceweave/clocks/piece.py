"""One stretch of time: a line per clock, hosts that share one, and what causality proves of it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.bounds import Bounds, close, pairwise
from traceweave.clocks.first_estimate import connect, rough_clocks
from traceweave.clocks.fit import Fit, refine, unfitted
from traceweave.clocks.matrices import Block

DRIFT_SPAN_NS = 200_000_000
"""No drift is fitted to anchors that span less."""
EPOCH_NS = 1_000_000_000_000_000_000
"""Local times below this (the year 2001) do not count from the Unix epoch."""
HOST_NS = 20_000.0
"""Ranks of one host whose clocks lie farther apart do not share one: the conversion of a GPU's
timestamps costs some microseconds, 73 us on some V100 hosts.
"""
HOST_SIGMAS = 3.0
"""Nor do ranks whose distance is this many times its standard error,"""
AGREE_NS = 2_000.0
"""unless it is below this."""
LEAST_ANCHORS = 32
"""No drift is fitted to fewer."""


@dataclass(frozen=True)
class RankInfo:
    """What a clock fit has to know of a rank besides its collectives."""

    rank: int
    host: str | None
    first_ns: int
    """First event on the rank's own clock."""
    last_ns: int


@dataclass(frozen=True)
class Options:
    """How to fit: where times count from, whose clock is the common one, whether hosts matter."""

    origin_ns: int
    reference_rank: int | None
    same_host: bool


@dataclass
class State:
    """What is known while the fit proceeds; arrays have one value per rank."""

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
    bounds: Bounds = field(init=False)
    moved: Floats = field(init=False)
    """What the bounds make of an offset correction of 0."""


def fit_piece(
    ranks: list[RankInfo], blocks: list[Block], options: Options, least_span: float
) -> State:
    """Fit one stretch of time: lines, hosts, and what causality says of them."""
    state = _start(ranks, blocks, options, piece=least_span < DRIFT_SPAN_NS)
    state.fit = _fit(state, least_span)
    if options.same_host and _tie_hosts(state, options.reference_rank):
        state.fit = _fit(state, least_span)
    state.bounds = close(pairwise(_on_common_clock(state), len(ranks)))
    order = sorted(range(len(ranks)), key=lambda r: (not is_root(state, r), -state.anchors[r], r))
    state.moved = state.bounds.clamp(np.zeros(len(ranks)), order)
    return state


def _start(ranks: list[RankInfo], blocks: list[Block], options: Options, piece: bool) -> State:
    """First estimate; lines turn about the middle of the recording, or of a piece's anchors."""
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
    span = np.where(anchors > 0, last - first, 0.0)
    if piece:
        middle = np.where(anchors > 0, np.rint((first + last) / 2), middle)
    component, shared = connect(blocks, count)
    roots = _roots(ranks, component, options.reference_rank)
    fit = unfitted(*rough_clocks(blocks, shared, sorted(roots.values()), middle))
    return State(ranks, blocks, component, roots, np.arange(count), middle, anchors, span, fit)


def _roots(ranks: list[RankInfo], component: Ints, reference: int | None) -> dict[int, int]:
    """Smallest rank of each component, or the wanted reference where it belongs to it."""
    roots: dict[int, int] = {}
    for position, info in enumerate(ranks):
        number = int(component[position])
        if number not in roots or info.rank == reference:
            roots[number] = position
    return roots


def is_root(state: State, rank: int) -> bool:
    """Whether the rank's clock is the common one of its component."""
    return state.roots[int(state.component[rank])] == rank


def _fixed(state: State) -> Flags:
    """Ranks whose clock is a component's reference."""
    return np.isin(state.unit, state.unit[sorted(state.roots.values())])


def _fit(state: State, least_span: float) -> Fit:
    """Fit all clocks, with drifts where the anchors are many and span enough.

    Whether a clock has a drift depends on nothing that the clock says, nor is a small offset or
    drift taken for none: what is added to a clock comes out of the answer again, whatever it is.
    """
    if not state.blocks:
        return state.fit
    fixed = _fixed(state)
    drifting = ~fixed & (state.span >= least_span) & (state.anchors >= LEAST_ANCHORS)
    for number in np.unique(state.unit):
        members = state.unit == number
        drifting[members] = drifting[members].any()
    return refine(state.blocks, state.fit, state.middle, state.unit, fixed, drifting)


def _tie_hosts(state: State, reference: int | None) -> bool:
    """Give ranks of one host one clock where the data allow it; return whether any were tied."""
    hosts: dict[str, list[int]] = {}
    for position, info in enumerate(state.ranks):
        if info.host is not None:
            hosts.setdefault(info.host, []).append(position)
    bounds = close(pairwise(_on_common_clock(state), len(state.ranks)))
    tied = False
    for members in hosts.values():
        if len(members) > 1:
            tied = _tie(state, bounds, members, reference) or tied
    return tied


def _tie(state: State, bounds: Bounds, members: list[int], reference: int | None) -> bool:
    """Tie the members of one host whose offsets agree, and join components they connect."""
    at = float(np.median(state.middle[members]))
    offset, drift = state.fit.offset, state.fit.drift
    for first in members:
        for other in members:
            if other == first or state.unit[other] == state.unit[first]:
                continue
            if state.component[other] != state.component[first]:
                _join(state, first, other, at, reference)
                continue
            apart = float(
                offset[other]
                + drift[other] * (at - state.middle[other])
                - offset[first]
                - drift[first] * (at - state.middle[first])
            )
            allowed = -bounds.upper[other, first] <= apart <= bounds.upper[first, other]
            error = float(np.hypot(state.fit.error[first], state.fit.error[other]))
            near = min(HOST_NS, max(AGREE_NS, HOST_SIGMAS * error))
            if abs(apart) <= near and allowed:
                state.unit[state.unit == state.unit[other]] = state.unit[first]
    numbers = np.unique(state.unit, return_inverse=True)[1]
    state.unit = np.asarray(numbers, dtype=np.int64)
    for position in members:
        mates = state.unit == state.unit[position]
        if mates.sum() > 1:
            middle = float(np.median(state.middle[mates]))
            offset[mates] = np.median(offset[mates] + drift[mates] * (middle - state.middle[mates]))
            drift[mates] = np.median(drift[mates])
            state.middle[mates] = middle
            if _fixed(state)[position]:
                offset[mates] = drift[mates] = 0.0
    return len(np.unique(state.unit[members])) < len(members)


def _join(state: State, first: int, other: int, at: float, reference: int | None) -> None:
    """Bring the component of `other` on that of `first`: the two share the host's clock."""
    offset, drift = state.fit.offset, state.fit.drift
    here = offset[first] + drift[first] * (at - state.middle[first])
    there = offset[other] + drift[other] * (at - state.middle[other])
    old = int(state.component[other])
    joining = state.component == old
    offset[joining] += here - there
    state.component[joining] = state.component[first]
    state.unit[state.unit == state.unit[other]] = state.unit[first]
    state.roots = _roots(state.ranks, state.component, reference)
    for root in state.roots.values():
        inside = state.component == state.component[root]
        offset[inside] -= offset[root]


def _on_common_clock(state: State) -> list[Block]:
    fit = state.fit
    return [block.shifted(fit.offset, fit.drift, state.middle) for block in state.blocks]
