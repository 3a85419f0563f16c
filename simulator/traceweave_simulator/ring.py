"""How late each member of a ring sees the end of a collective, in forms that no fit is told of.

Two parts. The wave: the rank that arrived last ends last and the member opposite to it in the ring
ends first, so the lag is V-shaped around a place that changes from instance to instance; H100 rings
of one host show it plainly, A100 rings weakly. The systematic part: a member is always a little
early or late, whoever arrived last.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Law = Literal["linear", "root", "saturating", "constant"]
Shape = Literal["v", "ramp", "random", "zigzag", "halves"]
Center = Literal["last", "random"]

REFERENCE_US = 400.0
"""The transfer time at which a lag has its nominal size."""


def grow(law: Law, transfer_us: float) -> float:
    """Return the factor on a lag at one transfer time; 1 at REFERENCE_US."""
    share = transfer_us / REFERENCE_US
    if law == "linear":
        return share
    if law == "root":
        return float(np.sqrt(share))
    if law == "saturating":
        return 2 * share / (1 + share)
    return 1.0


def systematic(shape: Shape, members: int, rng: np.random.Generator) -> Floats:
    """Return every member's own lag, from 0 to 1."""
    place = np.arange(members)
    if shape == "v":
        return np.asarray(np.abs(place - members / 2) / max(1.0, members / 2), np.float64)
    if shape == "ramp":
        return np.asarray(place / max(1, members - 1), np.float64)
    if shape == "zigzag":
        return (place % 2).astype(np.float64)
    if shape == "halves":
        return (2 * place >= members).astype(np.float64)
    return rng.random(members)


def wave(center: npt.NDArray[np.int64], members: int) -> Floats:
    """Return the lag of all members around each center, from 0 opposite to it to 1 at it."""
    apart = np.abs(np.arange(members) - center[:, None])
    distance = np.minimum(apart, members - apart)
    return np.asarray(1 - distance / max(1, members // 2), dtype=np.float64)


def wave_heights(median_us: float, count: int, rng: np.random.Generator) -> Floats:
    """Return amplitudes with p50, p95 and largest value in the ratio 28 : 36 : 45."""
    drawn = median_us * (1 + 0.174 * rng.standard_normal(count))
    return np.clip(drawn, 0.3 * median_us, 45 / 28 * median_us)
