"""What a clock fit leaves over, rank by rank."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.matrices import Block, columns_of_ranks

STEP_NS = 125.0
"""Medians of stretches are never trusted to better than this."""


def drift_errors(blocks: list[Block], residuals: list[Floats], middle: Floats) -> Floats:
    """Standard error of each rank's drift, from the scatter of the medians of 16 stretches of time.

    Medians of stretches also carry slow wander, which a count of anchors would call significant.
    """
    errors = np.full(len(middle), np.inf)
    for rank, columns in enumerate(columns_of_ranks(blocks, len(middle))):
        at, residual = of_rank(blocks, residuals, columns)
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


def of_rank(
    blocks: list[Block], values: list[Floats], columns: list[tuple[int, int]]
) -> tuple[Floats, Floats]:
    """Ends of one rank, which has these columns of blocks, and the values beside them."""
    at, found = [np.empty(0)], [np.empty(0)]
    if values:
        for number, column in columns:
            value = values[number][:, column]
            known = np.isfinite(value)
            at.append(blocks[number].end[known, column])
            found.append(value[known])
    return np.concatenate(at), np.concatenate(found)
