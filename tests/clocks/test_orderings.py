"""Bounds from moments that are no collectives: exchanges of probes, on clocks that are known."""

from __future__ import annotations

import numpy as np

from traceweave.clocks.bounds import close
from traceweave.clocks.orderings import exchanges


def probes(
    ahead_ns: float, rng: np.random.Generator, ways_ns: tuple[float, float] = (8_000.0, 8_000.0)
) -> np.ndarray:
    """50 exchanges with a rank whose clock is ahead; both ways take at least so long."""
    asked = np.arange(50) * 1e6
    there, back = (way + rng.exponential(3_000.0, 50) for way in ways_ns)
    heard = asked + there + ahead_ns
    answered = heard + 2_000.0
    return np.stack([asked, heard, answered, answered - ahead_ns + back], axis=1)


def open_bounds(ranks: int) -> np.ndarray:
    upper = np.full((ranks, ranks), np.inf)
    np.fill_diagonal(upper, 0.0)
    return upper


def test_an_exchange_bounds_an_offset_by_its_round_trip() -> None:
    times = probes(1e9, np.random.default_rng(0))
    upper = open_bounds(2)
    exchanges(np.zeros(50, np.int64), np.ones(50, np.int64), times).tighten(upper)
    low, high = close(upper).interval(0)
    # the clock of rank 1 is 1 s ahead, so that much is taken from it
    assert low[1] <= -1e9 <= high[1]
    best = (times[:, 1] - times[:, 0]).min() + (times[:, 3] - times[:, 2]).min()
    assert high[1] - low[1] == best
    assert 16_000 <= best < 18_000


def test_probes_are_chained_and_one_way_says_one_thing() -> None:
    rng = np.random.default_rng(1)
    upper = open_bounds(3)
    for rank, ahead in ((1, 5e6), (2, -3e6)):
        ranks = np.full(50, rank)
        exchanges(np.zeros(50, np.int64), ranks, probes(ahead, rng)).tighten(upper)
    bounds = close(upper)
    low, high = bounds.interval(1)
    assert bounds.slack_ns == 0
    # ranks 1 and 2 never spoke to each other: both round trips lie between them
    assert low[2] <= 8e6 <= high[2]
    assert 32_000 <= high[2] - low[2] < 36_000


def test_probes_that_cannot_be_true_are_said_to_contradict() -> None:
    times = probes(0.0, np.random.default_rng(2), ways_ns=(-20_000.0, 2_000.0))
    upper = open_bounds(2)
    exchanges(np.zeros(50, np.int64), np.ones(50, np.int64), times).tighten(upper)
    assert close(upper).slack_ns > 1_000
