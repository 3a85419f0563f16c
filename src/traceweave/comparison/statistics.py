"""Is the difference between two samples more than chance? Tests over many samples at once.

Their distributions are scipy.special's: scipy.stats has the tests, and takes a second to import.

A sample is one value per step. Steps of one run follow each other, and one recording says nothing
of the spread between runs: a significant difference is one between these two recordings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

FEWEST = 3
"""Steps that a run must have for a test."""

MOST_EXACT = 8
"""Values of a sample up to which the Mann-Whitney test counts orders, as scipy.stats does."""

MOST_PAIRED = 1000
"""Values of a sample that are compared with each of another; of more, so many quantiles are."""


@dataclass(frozen=True)
class Tests:
    """Differences new - base of many pairs of samples; one entry per pair, NaN: not testable."""

    difference: Values
    low: Values
    """Lower end of Welch's confidence interval of the difference."""
    high: Values
    welch_p: Values
    mann_whitney_p: Values
    hedges_g: Values
    """Difference in pooled standard deviations, corrected for small samples."""
    slower_share: Values
    """Share of all pairs (one base step, one new step) in which the new one is larger; a tie is
    half a pair. 0.5: no difference."""


def compare_samples(pair: Sequence[Values], confidence: float = 0.95) -> Tests:
    """Test every row of the second (rows x steps) against the same row of the first."""
    base, new = pair
    rows = len(base)
    difference = new.mean(axis=1) - base.mean(axis=1)
    found = {
        name: np.full(rows, np.nan) for name in ("low", "high", "welch", "mann", "g", "slower")
    }
    if base.shape[1] < FEWEST or new.shape[1] < FEWEST:
        return untested(difference)
    varied = (np.ptp(base, axis=1) > 0) | (np.ptp(new, axis=1) > 0)
    if varied.any():
        a, b = base[varied], new[varied]
        found["low"][varied], found["high"][varied], found["welch"][varied] = _welch(
            a, b, confidence
        )
        found["g"][varied] = _hedges_g(a, b)
    found["welch"][~varied & (difference == 0)] = 1.0
    found["slower"], found["mann"] = _mann_whitney(base, new)
    return Tests(difference, *found.values())


def _welch(base: Values, new: Values, confidence: float) -> tuple[Values, Values, Values]:
    """Return both ends of the interval of new - base, and the two-sided p (Welch 1947)."""
    from scipy.special import stdtr, stdtrit

    parts = [one.var(axis=1, ddof=1) / one.shape[1] for one in (base, new)]
    error = np.sqrt(parts[0] + parts[1])
    free = error**4 / sum(
        part**2 / (one.shape[1] - 1) for part, one in zip(parts, (base, new), strict=True)
    )
    difference = new.mean(axis=1) - base.mean(axis=1)
    half = stdtrit(free, (1 + confidence) / 2) * error
    return difference - half, difference + half, 2 * stdtr(free, -np.abs(difference / error))


def _mann_whitney(base: Values, new: Values) -> tuple[Values, Values]:
    """Return the share of pairs in which the new one is larger, and the two-sided p: exact where
    one of the samples has at most MOST_EXACT values and none are equal, else that of the normal
    distribution, corrected for ties and continuity (Mann and Whitney 1947, Lehmann 1975).
    """
    from scipy.special import ndtr

    few, more = base.shape[1], new.shape[1]
    ranks, tied = _ranks(np.concatenate([base, new], axis=1))
    larger = ranks[:, few:].sum(axis=1) - more * (more + 1) / 2
    most, pairs, values = np.maximum(larger, few * more - larger), few * more, few + more
    spread = np.sqrt(pairs / 12 * (values + 1 - tied / (values * (values - 1))))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = 2 * ndtr(-(most - pairs / 2 - 0.5) / spread)
    if min(few, more) <= MOST_EXACT:
        ways = _ways(few, more)
        at_least = np.cumsum(ways[::-1])[::-1] / comb(values, few)
        exact = tied == 0
        p[exact] = 2 * at_least[most[exact].astype(np.int64)].astype(np.float64)
    # of values that are all equal there is no order
    p = np.where(np.isnan(p), 1.0, np.clip(p, 0, 1))
    return larger / pairs, p


def _ranks(values: Values) -> tuple[Values, Values]:
    """Return the rank of each value in its row, from 1, their mean where some are equal; and the
    sum of t^3 - t over the t values that are equal."""
    order = np.argsort(values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    count = values.shape[1]
    place = np.broadcast_to(np.arange(count), values.shape)
    leads = np.diff(ranked, axis=1, prepend=np.nan) != 0
    ends = np.diff(ranked, axis=1, append=np.nan) != 0
    first = np.maximum.accumulate(np.where(leads, place, 0), axis=1)
    last = np.minimum.accumulate(np.where(ends, place, count)[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    # each of the t that are equal adds t^2 - 1
    tied = ((last - first + 1.0) ** 2 - 1).sum(axis=1)
    return ranks, tied


def _ways(few: int, more: int) -> npt.NDArray[np.object_]:
    """Return in how many orders of two samples of such sizes each number of pairs is in order: the
    coefficients of the Gaussian binomial, exact integers."""
    few, more = sorted((few, more))
    ways = np.zeros(few * more + 1, dtype=object)
    ways[0] = 1
    for one in range(1, few + 1):
        for at in range(len(ways) - 1, more + one - 1, -1):
            ways[at] -= ways[at - more - one]
        for at in range(one, len(ways)):
            ways[at] += ways[at - one]
    return ways


@dataclass(frozen=True)
class Shift:
    """By how much one sample lies above another: the median of all differences new - base."""

    difference: float
    low: float
    """Lower end of its confidence interval; NaN: too few values for one."""
    high: float


def median_shift(base: Values, new: Values, confidence: float = 0.95) -> Shift:
    """Return Hodges' and Lehmann's estimate of the shift between two samples, and the interval of
    the Mann-Whitney test around it: a few odd values move neither.
    """
    from scipy.special import ndtri

    apart = np.sort(np.subtract.outer(_thinned(new), _thinned(base)), axis=None)
    # pairs that the normal approximation leaves out at either end (Hollander and Wolfe 1999, 4.3)
    pairs = len(base) * len(new)
    spread = float(np.sqrt(pairs * (len(base) + len(new) + 1) / 12))
    share = 0.5 - ndtri((1 + confidence) / 2) * spread / pairs
    outside = int(share * len(apart)) if share >= 0 else -1
    low, high = (apart[outside], apart[-1 - outside]) if outside >= 0 else (np.nan, np.nan)
    return Shift(float(np.median(apart)), float(low), float(high))


def _thinned(values: Values) -> Values:
    if len(values) <= MOST_PAIRED:
        return values
    return np.quantile(values, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)


def odd_ones(values: Values) -> npt.NDArray[np.bool_]:
    """Tell which values lie far above the others: more than three times the median deviation from
    the median, scaled as that of a normal distribution (Hampel 1974).
    """
    above = values - np.median(values)
    return np.asarray(above > 3 * 1.4826 * np.median(np.abs(above)))


def untested(difference: Values) -> Tests:
    """Return differences of which nothing more can be said."""
    nothing = np.full(len(difference), np.nan)
    return Tests(difference, nothing, nothing, nothing, nothing, nothing, nothing)


def adjust(p: Values) -> Values:
    """Return p-values corrected for testing many at once; NaN stays NaN.

    Benjamini-Yekutieli 2001, which holds however the tests depend on each other: a slow step slows
    many kernels at once.
    """
    adjusted = np.full(len(p), np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    if len(tested):
        order = tested[np.argsort(p[tested])]
        place = np.arange(1, len(order) + 1)
        each = p[order] * len(order) / place * (1 / place).sum()
        adjusted[order] = np.clip(np.minimum.accumulate(each[::-1])[::-1], 0, 1)
    return adjusted


def changes(
    difference: npt.NDArray[Any],
    p: Values,
    alpha: float,
    least: float,
    words: tuple[str, str],
) -> list[str]:
    """Say in a word what became of every item: one of `words` for more or less of it.

    Else 'same': less than `least`, whatever the p-value; 'not significant'; 'not testable'.
    """
    found = np.where(difference > 0, *words)
    found = np.where(np.isnan(p), "not testable", np.where(p < alpha, found, "not significant"))
    return [str(word) for word in np.where(np.abs(difference) < least, "same", found)]


def least_mann_whitney_p(base_steps: int, new_steps: int) -> float:
    """Return the smallest two-sided p that so few steps can give."""
    return 2 / comb(base_steps + new_steps, base_steps)


def _hedges_g(base: Values, new: Values) -> Values:
    """Hedges 1981: g = (1 - 3 / (4 df - 1)) * difference / pooled standard deviation."""
    free = base.shape[1] + new.shape[1] - 2
    spread = (base.shape[1] - 1) * base.var(axis=1, ddof=1)
    spread += (new.shape[1] - 1) * new.var(axis=1, ddof=1)
    g = (new.mean(axis=1) - base.mean(axis=1)) / np.sqrt(spread / free)
    return np.asarray((1 - 3 / (4 * free - 1)) * g, dtype=np.float64)
