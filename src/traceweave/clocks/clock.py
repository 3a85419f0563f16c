"""A clock as it is told, and what is known of the rank that has it."""

from __future__ import annotations

from dataclasses import dataclass


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
