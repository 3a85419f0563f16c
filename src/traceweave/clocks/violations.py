"""Collectives that end on one rank before another has begun, on the clocks that were found.

That cannot be: where it is left after the fit, a clock has moved in a way no line describes, the
calls of an instance are not one operation, or a GPU's timestamps are off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.clock import Clock
from traceweave.clocks.matrices import Block

ROUNDING_NS = 2.0
"""Two aligned times are rounded."""


@dataclass(frozen=True)
class Violations:
    """What is left of contradictions between causality and the clocks."""

    checked: int
    """Instances of synchronizing operations on two ranks or more."""
    count: int
    worst_ns: int
    early_rank: int | None
    """The rank that ended before `late_rank` began, in the worst case."""
    late_rank: int | None


def find_violations(
    blocks: list[Block], ranks: list[int], clocks: list[Clock], origin_ns: int
) -> Violations:
    """Check every instance whose operation synchronizes; block times count from `origin_ns`."""
    rows: dict[int, list[Clock]] = {}
    for clock in clocks:
        rows.setdefault(clock.rank, []).append(clock)
    checked, count, worst, early, late = 0, 0, 0.0, None, None
    for block in blocks:
        if not block.proves:
            continue
        members = [ranks[position] for position in block.ranks]
        start = _aligned(block.start, members, rows, origin_ns, sure=True)
        end = _aligned(block.end, members, rows, origin_ns)
        excess = np.fmax.reduce(start, axis=1) - np.fmin.reduce(end, axis=1)
        bad = excess > ROUNDING_NS
        checked += len(excess)
        count += int(bad.sum())
        if bad.any() and np.nanmax(excess) > worst:
            row = int(np.nanargmax(excess))
            worst = float(excess[row])
            early = members[int(np.nanargmin(end[row]))]
            late = members[int(np.nanargmax(start[row]))]
    return Violations(checked, count, round(worst), early, late)


def _aligned(
    times: Floats,
    members: list[int],
    rows: dict[int, list[Clock]],
    origin_ns: int,
    sure: bool = False,
) -> Floats:
    """Times on the common clock, each by the row of its rank's clock that holds at it; if `sure`,
    NaN where nobody knows whether the clock has stepped: rows of a clock that rest on no anchor.
    """
    result = np.empty_like(times)
    for column, rank in enumerate(members):
        local = times[:, column]
        value = np.full(len(local), np.nan)
        for clock in rows.get(rank, []):
            moved = clock.drift_ppm * 1e-6 * (local - (clock.reference_local_ns - origin_ns))
            here = local + clock.offset_ns + moved
            since = -np.inf if clock.from_local_ns is None else clock.from_local_ns - origin_ns
            stepping = sure and len(rows[rank]) > 1 and clock.anchors == 0
            value = np.where(local >= since, np.nan if stepping else here, value)
        result[:, column] = value
    return result
