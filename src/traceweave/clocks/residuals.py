"""What a clock fit leaves over, rank by rank."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.clocks.matrices import Block, columns_of_ranks
from traceweave.medians import medians_of_parts, spreads_of_parts

STEP_NS = 125.0
"""Medians of stretches are never trusted to better than this."""
STRETCHES = ((24, 10), (6, 20))
"""Most stretches of time that a line is judged by, and the fewest anchors in each: short and long
ones,"""
SHORT = ((6, 3), (3, 5))
"""and of a clock with fewer anchors than two of those have."""
SIGMAS = 3.0
"""Standard errors that the median of a stretch lies off the line by chance."""


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
        x, y = (medians_of_parts(of[order], 16) for of in (at, residual))
        spread = float(np.sum((x - x.mean()) ** 2))
        if spread > 0:
            errors[rank] = max(STEP_NS, float(np.std(y, ddof=2))) / np.sqrt(spread)
    return errors


def strays(blocks: list[Block], residuals: list[Floats], unit: Ints) -> Floats:
    """By how much the clock of each rank strays from what was fitted, ns: most of all stretches of
    time; 0 where chance may do it. Its own ends tell; where the ranks of its clock (`unit`) share
    many with each other, those few that they share with other clocks as well."""
    columns = columns_of_ranks(blocks, len(unit))
    found = np.array([_stray(*of_rank(blocks, residuals, own)) for own in columns])
    tying = between_clocks(blocks, residuals, unit)
    for number in np.unique(unit):
        mates = np.flatnonzero(unit == number)
        if len(mates) == 1:
            continue
        here = sorted({block for mate in mates for block, _ in columns[mate]})
        at, residual = _of_ranks([blocks[n] for n in here], [tying[n] for n in here], mates)
        if len(at) < max(len(of_rank(blocks, residuals, columns[mate])[0]) for mate in mates):
            found[mates] = np.maximum(found[mates], _stray(at, residual))
    return found


def _of_ranks(blocks: list[Block], values: list[Floats], ranks: Ints) -> tuple[Floats, Floats]:
    """The instances of which something is said of one of these ranks: when they ended in the mean,
    and the mean of it."""
    at, found = [np.empty(0)], [np.empty(0)]
    for block, value in zip(blocks, values, strict=True):
        mine = np.isin(block.ranks, ranks)
        known = np.isfinite(value[:, mine]).any(axis=1)
        if known.any():
            at.append(np.nanmean(block.end[known][:, mine], axis=1))
            found.append(np.nanmean(value[known][:, mine], axis=1))
    return np.concatenate(at), np.concatenate(found)


def between_clocks(blocks: list[Block], values: list[Floats], unit: Ints) -> list[Floats]:
    """What is said of ends, of instances alone that ranks of several clocks share; else NaN."""
    result = []
    for block, value in zip(blocks, values, strict=True):
        mine = np.where(np.isfinite(value), unit[block.ranks], np.nan)
        several = np.fmax.reduce(mine, axis=1) > np.fmin.reduce(mine, axis=1)
        result.append(np.where(several[:, None], value, np.nan))
    return result


def _stray(at: Floats, residual: Floats) -> float:
    values = residual[np.argsort(at, kind="stable")]
    short = len(values) < 2 * STRETCHES[0][1]
    farthest = 0.0
    for most, anchors in SHORT if short else STRETCHES:
        count = min(most, len(values) // anchors)
        if count > 1:
            farthest = max(farthest, _apart(values, count) if short else _off(values, count))
    return farthest


def _off(values: Floats, count: int) -> float:
    medians = medians_of_parts(values, count)
    noise = float(np.median(spreads_of_parts(values, medians)))
    error = 1.2533 * 1.4826 * noise / np.sqrt(-(-len(values) // count))
    far = float(np.abs(medians - np.median(values)).max())
    return far if far > SIGMAS * error else 0.0


def _apart(values: Floats, count: int) -> float:
    """The same for few ends, since so few may leave the fit nearer to one stretch than to
    another.
    """
    medians = medians_of_parts(values, count)
    # a difference of two medians has twice their variance
    error = 1.2533 * scatter_of_few(values) * np.sqrt(2 / -(-len(values) // count))
    apart = float(np.ptp(medians))
    return apart if apart > SIGMAS * error else 0.0


def scatter_of_few(values: Floats) -> float:
    """Standard deviation of three ends or more in the order of time, wherever a clock went: from
    how far each lies from the middle of those beside it.
    """
    # that has 1.5 times the variance of a single end
    return 1.4826 * float(np.median(np.abs(np.diff(values, 2)) / 2)) / float(np.sqrt(1.5))


def of_rank(
    blocks: list[Block], values: list[Floats], columns: list[tuple[int, int]]
) -> tuple[Floats, Floats]:
    """Ends of one rank, which has these columns of blocks, and the values beside them, where both
    are known."""
    at, found = [np.empty(0)], [np.empty(0)]
    if values:
        for number, column in columns:
            end, value = blocks[number].end[:, column], values[number][:, column]
            known = np.isfinite(end) & np.isfinite(value)
            at.append(end[known])
            found.append(value[known])
    return np.concatenate(at), np.concatenate(found)
