"""What a clock fit leaves over, rank by rank."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.matrices import Block

STEP_NS = 125.0
"""Medians of stretches are never trusted to better than this."""


def drift_errors(blocks: list[Block], residuals: list[Floats], middle: Floats) -> Floats:
    """Standard error of each rank's drift, from the scatter of the medians of 16 stretches of time.

    Medians of stretches also carry slow wander, which a count of anchors would call significant.
    """
    errors = np.full(len(middle), np.inf)
    for rank in range(len(middle)):
        at, residual = of_rank(blocks, residuals, rank)
        if len(at) < 32:
            continue
        order = np.argsort(at, kind="stable")
        stretches = np.array_split(order, 16)
        x = np.array([np.median(at[s]) for s in stretches])
        y = np.array([np.median(residual[s]) for s in stretches])
        spread = float(np.sum((x - x.mean()) ** 2))
        if spread > 0:
            errors[rank] = max(STEP_NS, float(np.std(y, ddof=2))) / np.sqrt(spread)
    return errors


def of_rank(blocks: list[Block], values: list[Floats], rank: int) -> tuple[Floats, Floats]:
    """Ends of one rank and the values beside them, over all blocks."""
    at, found = [np.empty(0)], [np.empty(0)]
    for block, value in zip(blocks, values, strict=True):
        for column in np.flatnonzero(block.ranks == rank):
            known = np.isfinite(value[:, column])
            at.append(block.end[known, column])
            found.append(value[known, column])
    return np.concatenate(at), np.concatenate(found)
