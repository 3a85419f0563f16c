"""Tests of samples against numbers worked out by hand and printed tables."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.marks import nightly
from traceweave.comparison import statistics
from traceweave.comparison.statistics import (
    adjust,
    compare_samples,
    least_mann_whitney_p,
    median_shift,
)

BASE = np.array([[1010.0, 990.0, 1000.0]])
NEW = BASE + 50


def test_two_samples_of_three_by_hand() -> None:
    found = compare_samples([BASE, NEW])

    # both variances are 100: t = 50 / sqrt(200 / 3) = 6.1237, 4 degrees of freedom
    assert found.difference == pytest.approx([50])
    assert found.welch_p == pytest.approx([0.0036], abs=5e-5)
    # the two-sided 5 % point of t with 4 degrees of freedom is 2.7764
    assert found.low == pytest.approx([50 - 2.77645 * 8.16497], abs=1e-3)
    assert found.high == pytest.approx([50 + 2.77645 * 8.16497], abs=1e-3)
    # every new value is above every old one: 2 of the 20 orders are as extreme
    assert found.mann_whitney_p == pytest.approx([0.1])
    assert found.slower_share == pytest.approx([1])
    # 50 / 10, times 1 - 3 / (4 * 4 - 1)
    assert found.hedges_g == pytest.approx([4])


def test_two_samples_are_too_few_for_a_test() -> None:
    found = compare_samples([BASE[:, :2], NEW])
    assert found.difference == pytest.approx([50])
    assert np.isnan([found.welch_p, found.mann_whitney_p, found.hedges_g, found.low]).all()


def test_values_that_never_vary_are_equal_or_not_testable() -> None:
    same = np.full((2, 3), 7.0)
    other = np.array([[7.0] * 3, [8.0] * 3])
    found = compare_samples([same, other])
    assert found.welch_p[0] == 1
    assert np.isnan(found.welch_p[1])


def test_a_sample_that_never_varies_is_tested_against_one_that_does() -> None:
    found = compare_samples([np.zeros((1, 3)), BASE])
    # t = 1000 / (10 / sqrt(3)), 2 degrees of freedom
    assert found.welch_p == pytest.approx([3.33e-5], rel=0.01)


@given(
    st.lists(st.integers(0, 10**9), min_size=3, max_size=8),
    st.lists(st.integers(0, 10**9), min_size=3, max_size=8),
)
def test_swapping_the_runs_turns_the_sign_and_nothing_else(a: list[int], b: list[int]) -> None:
    left, right = np.array([a], dtype=np.float64), np.array([b], dtype=np.float64)
    there, back = compare_samples([left, right]), compare_samples([right, left])
    assert there.difference == pytest.approx(-back.difference)
    assert there.welch_p == pytest.approx(back.welch_p, nan_ok=True)
    assert there.mann_whitney_p == pytest.approx(back.mann_whitney_p)
    assert there.slower_share == pytest.approx(1 - back.slower_share)
    assert there.low == pytest.approx(-back.high, nan_ok=True)


def test_a_shift_of_many_values_is_that_of_their_quantiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 values are not compared with each of 20,000 others, which would take 3.2 GB."""
    rng = np.random.default_rng(0)
    base, new = rng.normal(100, 5, 900), rng.normal(101, 5, 800)
    whole = median_shift(base, new)
    monkeypatch.setattr(statistics, "MOST_PAIRED", 300)
    thinned = median_shift(base, new)
    assert thinned.difference == pytest.approx(whole.difference, abs=0.02)
    assert (thinned.low, thinned.high) == pytest.approx((whole.low, whole.high), abs=0.02)
    assert whole.low < 1 < whole.high


def test_many_tests_are_corrected_together_and_missing_ones_stay_missing() -> None:
    # 2 tests: times 2 (1 + 1/2) = 3 for the smallest, 3 / 2 for the largest
    found = adjust(np.array([0.01, np.nan, 0.04]))
    assert found[[0, 2]] == pytest.approx([0.03, 0.06])
    assert np.isnan(found[1])
    assert np.isnan(adjust(np.array([np.nan]))).all()


def test_few_steps_bound_what_ranks_can_show() -> None:
    assert least_mann_whitney_p(3, 3) == pytest.approx(0.1)
    assert least_mann_whitney_p(4, 4) == pytest.approx(2 / 70)


@pytest.mark.parametrize(("few", "more"), [(3, 40), (8, 8), (9, 9), (20, 57), (200, 5)])
@pytest.mark.parametrize("decimals", [None, 0], ids=["no ties", "ties"])
def test_tests_are_those_of_scipy(few: int, more: int, decimals: int | None) -> None:
    """Row by row, as the exact distribution is for those without ties."""
    draw = np.random.default_rng(few * more)
    base, new = draw.normal(10, 2, (12, few)), draw.normal(10.5, 3, (12, more))
    if decimals is not None:
        base, new = base.round(decimals), new.round(decimals)
    found = compare_samples((base, new))
    welch = stats.ttest_ind(new, base, axis=1, equal_var=False)
    interval = welch.confidence_interval(0.95)
    ranked = [stats.mannwhitneyu(b, a) for a, b in zip(base, new, strict=True)]
    expected = {
        "welch_p": welch.pvalue, "low": interval.low, "high": interval.high,
        "mann_whitney_p": [one.pvalue for one in ranked],
        "slower_share": [one.statistic / (few * more) for one in ranked],
    }  # fmt: skip
    for name, values in expected.items():
        assert getattr(found, name) == pytest.approx(np.asarray(values), rel=1e-9, abs=1e-12)
    assert adjust(found.welch_p) == pytest.approx(
        stats.false_discovery_control(found.welch_p, method="by"), rel=1e-12
    )


def test_values_that_are_all_equal_differ_by_nothing() -> None:
    found = compare_samples((np.full((1, 9), 3.0), np.full((1, 12), 3.0)))
    assert (found.welch_p[0], found.mann_whitney_p[0], found.slower_share[0]) == (1, 1, 0.5)


@nightly
def test_a_comparison_does_not_import_the_tests_of_scipy() -> None:
    """A second of CPU time, for two distributions."""
    code = (
        "import sys, numpy as np; from traceweave.comparison.statistics import *;"
        "compare_samples((np.eye(4), np.eye(4))); adjust(np.ones(2));"
        "median_shift(np.arange(9.0), np.arange(9.0)); assert 'scipy.stats' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
