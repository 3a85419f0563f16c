"""Which loss suits ends around bends: by hand, and on noise whose best estimate is known."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.arrays import Floats
from traceweave.clocks.bend_scatter import Scatter, _from_others, measure_scatter

RNG = np.random.default_rng(3)
EVEN = 1_000 * RNG.normal(size=(500, 8))


def measured(ends: Floats) -> Scatter:
    rests = ends - np.median(ends, axis=1, keepdims=True)
    return measure_scatter([rests], 1.4826 * float(np.median(np.abs(rests))))


def test_distance_from_the_median_of_the_others_by_hand() -> None:
    found = _from_others(np.array([[1.0, 2.0, 4.0, 8.0], [1.0, 5.0, np.nan, 2.0]]))
    assert found[0].tolist() == [-3, -2, 2, 6]
    assert found[1, [0, 1, 3]].tolist() == [-2.5, 3.5, -1]
    assert np.isnan(found[1, 2])


def test_ends_that_scatter_evenly_are_squared_and_weigh_alike() -> None:
    found = measured(EVEN)
    assert (found.loss.core, found.loss.limit) == (np.inf, 1e6)
    assert found.freedom >= 8
    weights = found.weights(np.abs(EVEN) / found.sigma)
    # about as much information as 1 / variance: medians of eight lie nearer than the truth
    assert 1e-6 < weights.mean() < 1.6e-6


def test_a_sharp_peak_is_measured_by_its_distance() -> None:
    peaked = EVEN * RNG.gamma(1, 1, size=EVEN.shape)
    assert measured(peaked).loss.core == pytest.approx(0.2)


def test_instances_whose_ends_lie_together_say_more_where_instances_differ() -> None:
    found = measured(EVEN * np.repeat([0.2, 5.0], 250)[:, None])
    assert found.freedom <= 2
    near, far = found.weights(np.array([[0.2] * 8, [5.0] * 8]))
    assert near[0] > 10 * far[0]
