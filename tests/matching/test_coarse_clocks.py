"""Medians of parts, against numpy's own cut into parts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from traceweave.matching.coarse_clocks import medians_of_parts, spreads_of_parts


@given(
    st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.sampled_from([(), (3,)]),
    st.integers(0, 2**32 - 1),
)
def test_medians_of_parts(lengths: tuple[int, int], columns: tuple[int, ...], seed: int) -> None:
    length, count = lengths
    values = np.random.default_rng(seed).normal(size=(length, *columns))
    parts = np.array_split(values, count)
    medians = medians_of_parts(values, count)
    assert np.array_equal(medians, [np.median(part, axis=0) for part in parts])
    spreads = [np.median(np.abs(part - np.median(part, axis=0)), axis=0) for part in parts]
    assert np.array_equal(spreads_of_parts(values, medians), spreads)
