"""A clock as it is told, what is known of the rank that has it, and what contradicts clocks:
collectives that end on one rank before another has begun. That cannot be: where it is left after
the fit, a clock has moved in a way no line describes, the calls of an instance are not one
operation, or a GPU's timestamps are off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.matrices import Block

ROUNDING_NS = 2.0
"""Two aligned times are rounded."""


@dataclass(frozen=True)
class RankInfo:
    """What a clock fit has to know of a rank besides its collectives."""

    rank: int
    host: str | None
    first_ns: int
    """First event on the rank's own clock."""
    last_ns: int
    on_gpu: bool = True
    """Whether a GPU times its calls, not threads of the host."""


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


def alone(info: RankInfo) -> Clock:
    """Return the clock of the only rank of a run, which is as it is."""
    middle = (info.first_ns + info.last_ns) // 2
    return Clock(
        info.rank, None, info.rank, 0, 0.0, middle, 0, None, None, 0, "single rank", "aligned"
    )


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
    result = np.full(times.shape, np.nan)
    for local, to, rank in zip(times.T, result.T, members, strict=True):
        for clock in rows.get(rank, []):
            since = -np.inf if clock.from_local_ns is None else clock.from_local_ns - origin_ns
            here = local >= since
            moved = clock.drift_ppm * 1e-6 * (local - (clock.reference_local_ns - origin_ns))
            stepping = sure and len(rows[rank]) > 1 and clock.anchors == 0
            to[here] = np.nan if stepping else (local + clock.offset_ns + moved)[here]
    return result
