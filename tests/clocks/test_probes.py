"""Exchanges of clock probes on clocks that are known: what they prove."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.clocks.bounds import Bounds, close, pairwise
from traceweave.clocks.probes import as_collectives


def probes(
    ahead_ns: float, rng: np.random.Generator, ways_ns: tuple[float, float] = (8_000.0, 8_000.0)
) -> np.ndarray:
    """50 exchanges with a rank whose clock is ahead; both ways take at least so long."""
    asked = np.arange(50) * 1e6
    there, back = (way + rng.exponential(3_000.0, 50) for way in ways_ns)
    heard = asked + there + ahead_ns
    answered = heard + 2_000.0
    return np.stack([asked, heard, answered, answered - ahead_ns + back], axis=1)


def bounds(ranks: int, of_pair: dict[tuple[int, int], np.ndarray]) -> Bounds:
    blocks = [as_collectives(np.array(pair), times) for pair, times in of_pair.items()]
    return close(pairwise(blocks, ranks))


def test_an_exchange_bounds_an_offset_by_its_round_trip() -> None:
    times = probes(1e9, np.random.default_rng(0))
    low, high = bounds(2, {(0, 1): times}).interval(0)
    # the clock of rank 1 is 1 s ahead, so that much is taken from it
    assert low[1] <= -1e9 <= high[1]
    best = (times[:, 1] - times[:, 0]).min() + (times[:, 3] - times[:, 2]).min()
    assert high[1] - low[1] == pytest.approx(best, abs=1e-3)
    assert 16_000 <= best < 18_000


def test_probes_are_chained_and_one_way_says_one_thing() -> None:
    rng = np.random.default_rng(1)
    found = bounds(3, {(0, 1): probes(5e6, rng), (0, 2): probes(-3e6, rng)})
    low, high = found.interval(1)
    assert found.slack_ns == 0
    # ranks 1 and 2 never spoke to each other: both round trips lie between them
    assert low[2] <= 8e6 <= high[2]
    assert 32_000 <= high[2] - low[2] < 36_000


def test_probes_that_cannot_be_true_are_said_to_contradict() -> None:
    times = probes(0.0, np.random.default_rng(2), ways_ns=(-20_000.0, 2_000.0))
    assert bounds(2, {(0, 1): times}).slack_ns > 1_000


def test_who_asked_whom_does_not_matter() -> None:
    times = probes(1e9, np.random.default_rng(3))
    # the one whose clock is ahead has asked
    low, high = bounds(2, {(1, 0): times}).interval(1)
    assert low[0] <= -1e9 <= high[0]
