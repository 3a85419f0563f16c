"""The noise of ends: what far ends and scattered instances may say."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.clocks.scatter import measure_scatter

LEAST_NS = 1.0


def test_ends_without_tails_keep_nearly_equal_weights_and_show_their_size() -> None:
    ends = np.random.default_rng(0).normal(0, 1000.0, (400, 16))
    scatter = measure_scatter(ends, LEAST_NS)
    weights = scatter.weights(ends - ends.mean(axis=1, keepdims=True))
    assert 1 / np.sqrt(np.median(weights)) == pytest.approx(1000.0, rel=0.25)
    assert np.percentile(weights, 10) > np.median(weights) / 2


def test_an_end_far_out_and_an_instance_far_apart_say_less() -> None:
    rng = np.random.default_rng(1)
    ends = rng.normal(0, 1000.0, (100, 8))
    ends[0, 0] = 50_000.0
    ends[1] *= 20
    weights = measure_scatter(ends, LEAST_NS).weights(ends)
    usual = np.median(weights)
    assert weights[0, 0] < usual / 100
    assert weights[1].max() < usual / 3


def test_absent_ends_have_no_weight_and_do_not_count() -> None:
    ends = np.random.default_rng(2).normal(0, 1000.0, (200, 8))
    ends[:, 3] = np.nan
    weights = measure_scatter(ends, LEAST_NS).weights(ends)
    assert (weights[:, 3] == 0).all()
    whole = measure_scatter(np.delete(ends, 3, axis=1), LEAST_NS)
    assert measure_scatter(ends, LEAST_NS).sigma == pytest.approx(whole.sigma)
    assert (np.delete(weights, 3, axis=1) > 0).all()


def test_no_end_is_trusted_to_better_than_the_least() -> None:
    assert measure_scatter(np.zeros((50, 4)), 500.0).sigma == 500.0


def test_the_middle_of_ends_with_far_tails_is_found_better_than_by_their_mean() -> None:
    rng = np.random.default_rng(3)
    errors = []
    for _ in range(30):
        ends = 1000 * rng.standard_t(1.5, (100, 4))
        weight = measure_scatter(ends, LEAST_NS).weights(ends - np.median(ends, axis=1)[:, None])
        errors.append([np.sum(weight * ends) / weight.sum(), ends.mean()])
    by_weight, by_mean = np.sqrt(np.mean(np.square(errors), axis=0))
    assert by_weight < by_mean / 2
