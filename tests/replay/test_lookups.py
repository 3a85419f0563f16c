"""Looking up by key and moment, against going through all rows."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.replay.lookups import (
    Union,
    latest,
    most_common,
    numbered,
    places,
    positions,
    soonest,
    stretches,
)


@pytest.mark.parametrize("rows", [0, 1, 30])
def test_the_last_row_of_a_key_until_a_moment_and_the_first_since(rows: int) -> None:
    random = np.random.default_rng(rows)
    keys, at = random.integers(0, 4, (2, rows))
    asked, when = random.integers(-1, 5, (2, 40))
    before, after = latest(keys, at, asked, when), soonest(keys, at, asked, when)
    for one, moment, last, first in zip(asked, when, before.tolist(), after.tolist(), strict=True):
        own = [row for row in range(rows) if keys[row] == one]
        # of rows at once the last, and the first
        assert last == max(
            (r for r in own if at[r] <= moment), key=lambda r: (at[r], r), default=-1
        )
        assert first == min(
            (r for r in own if at[r] >= moment), key=lambda r: (at[r], r), default=-1
        )


@pytest.mark.parametrize("far", [1, 1 << 40], ids=["by a table", "sorted"])
def test_rows_of_equal_keys_have_one_number_in_order(far: int) -> None:
    keys = np.array([[2, -1, 2, 0, -1], [5, 7, 5, 5, 3]]) * far
    number, count = numbered(*keys)
    assert (number.tolist(), count) == ([3, 1, 3, 2, 0], 4)
    assert places(np.array([9, 0, 1, 0, 0]), *keys).tolist() == [1, 0, 0, 0, 0]
    none = np.empty(0, np.int64)
    assert (numbered(none, none)[0].tolist(), numbered(none, none)[1]) == ([], 0)


def test_rows_in_a_row_and_the_key_that_most_have() -> None:
    keys = np.array([1, 1, 0, 0, 1])
    assert stretches(keys) == [(0, 2), (2, 4), (4, 5)]
    assert stretches(keys, np.array([0, 1, 1, 1, 1])) == [(0, 1), (1, 2), (2, 4), (4, 5)]
    assert stretches(keys[:0]) == []
    assert most_common(keys).tolist() == [True, True, False, False, True]
    assert most_common(keys[:4]).tolist() == [False, False, True, True]
    assert positions(keys[2:], np.array([1, 5, 0])).tolist() == [2, -1, 0]


def test_times_are_covered_by_stretches_that_overlap_and_touch() -> None:
    """0 to 5, 7 to 8."""
    union = Union(np.array([2, 0, 7, 4]), np.array([4, 3, 8, 5]))
    since, until = np.array([0, 1, 5, 6, 3]), np.array([9, 2, 7, 20, 1])
    assert union.covered(since, until).tolist() == [6, 1, 0, 1, 0]
    assert union.gaps(since, until).tolist() == [3, 0, 2, 13, 0]
    assert union.holds(np.array([-1, 0, 5, 6, 8, 9])).tolist() == [
        False, True, True, False, True, False,
    ]  # fmt: skip
