"""Medians of many at once, against numpy's of one by one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from traceweave.medians import from_neighbours, medians_of_parts, row_medians


@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.sampled_from([(), (3,)]),
    st.integers(0, 2**32 - 1),
)
@example((20, 1), (), 1)
@example((20, 7), (), 1)
@example((21, 7), (), 1)
@example((7, 7), (), 1)
@example((3, 2), (), 1)
@example((20, 1), (2,), 1)
@example((20, 7), (2,), 1)
@example((21, 7), (2,), 1)
@example((7, 7), (2,), 1)
@example((3, 2), (2,), 1)
def test_medians_of_parts(lengths: tuple[int, int], columns: tuple[int, ...], seed: int) -> None:
    length, count = lengths
    values = np.random.default_rng(seed).normal(size=(length, *columns))
    parts = np.array_split(values, count)
    medians = medians_of_parts(values, count)
    assert np.array_equal(medians, [np.median(part, axis=0) for part in parts])


@pytest.mark.parametrize("length", [1, 2, 8, 9, 10, 40])
def test_values_are_compared_with_their_neighbours_alone(length: int) -> None:
    values = np.random.default_rng(length).normal(size=length)
    width = min(9, length)
    for place, apart in enumerate(from_neighbours(values)):
        first = min(max(place - width // 2, 0), length - width)
        around = [values[n] for n in range(first, first + width) if n != place]
        expected = values[place] - np.median(around) if around else np.nan
        assert apart == pytest.approx(expected, nan_ok=True)
    assert np.isfinite(values).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_parts_without_values_have_no_median() -> None:
    assert np.isnan(medians_of_parts(np.zeros(0), 1)).tolist() == [True]
    assert np.isnan(medians_of_parts(np.zeros(2), 3)).tolist() == [False, False, True]


def test_rows_without_values_have_no_median() -> None:
    nan = np.nan
    rows = np.array([[3.0, nan, 1.0], [nan, nan, 2.0], [nan, nan, nan]])
    assert np.array_equal(row_medians(rows), [[2.0], [2.0], [nan]], equal_nan=True)
    assert np.isnan(row_medians(rows[:, :0])).tolist() == [[True]] * 3
