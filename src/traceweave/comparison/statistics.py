"""Is the difference between two samples more than chance? Tests over many samples at once.

A sample is one value per step. Steps of one run follow each other, and one recording says nothing
of the spread between runs: a significant difference is one between these two recordings.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

FEWEST = 3
"""Steps that a run must have for a test."""

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
    from scipy import stats

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
        with warnings.catch_warnings():
            # a side that never varies (an op that one run lacks) has no precision to lose
            warnings.filterwarnings("ignore", "Precision loss occurred", RuntimeWarning)
            welch = stats.ttest_ind(b, a, axis=1, equal_var=False)
        interval = welch.confidence_interval(confidence)
        found["low"][varied], found["high"][varied] = interval.low, interval.high
        found["welch"][varied] = welch.pvalue
        found["g"][varied] = _hedges_g(a, b)
    found["welch"][~varied & (difference == 0)] = 1.0
    ranked = stats.mannwhitneyu(new, base, axis=1)
    found["mann"] = np.asarray(ranked.pvalue, dtype=np.float64)
    found["slower"] = np.asarray(ranked.statistic / (base.shape[1] * new.shape[1]))
    return Tests(difference, *found.values())


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
    from scipy import stats

    apart = np.sort(np.subtract.outer(_thinned(new), _thinned(base)), axis=None)
    # pairs that the normal approximation leaves out at either end (Hollander and Wolfe 1999, 4.3)
    pairs = len(base) * len(new)
    spread = float(np.sqrt(pairs * (len(base) + len(new) + 1) / 12))
    share = 0.5 - stats.norm.ppf((1 + confidence) / 2) * spread / pairs
    outside = int(share * len(apart)) if share >= 0 else -1
    low, high = (apart[outside], apart[-1 - outside]) if outside >= 0 else (np.nan, np.nan)
    return Shift(float(np.median(apart)), float(low), float(high))


def _thinned(values: Values) -> Values:
    if len(values) <= MOST_PAIRED:
        return values
    return np.quantile(values, (np.arange(MOST_PAIRED) + 0.5) / MOST_PAIRED)


def untested(difference: Values) -> Tests:
    """Return differences of which nothing more can be said."""
    nothing = np.full(len(difference), np.nan)
    return Tests(difference, nothing, nothing, nothing, nothing, nothing, nothing)


def adjust(p: Values) -> Values:
    """Return p-values corrected for testing many at once; NaN stays NaN.

    Benjamini-Yekutieli 2001, which holds however the tests depend on each other: a slow step slows
    many kernels at once.
    """
    from scipy import stats

    adjusted = np.full(len(p), np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(p[tested], method="by")
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
