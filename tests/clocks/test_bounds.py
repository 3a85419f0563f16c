"""What causality proves, from calls and exchanges of clock probes that are known."""

import numpy as np
import pytest

from traceweave.clocks.bounds import Bounds, bounds_of
from traceweave.clocks.matrices import Block, as_collectives


def probes(
    ahead_ns: float, rng: np.random.Generator, ways_ns: tuple[float, float] = (8_000.0, 8_000.0)
) -> np.ndarray:
    """50 exchanges with a rank whose clock is ahead; both ways take at least so long."""
    asked = np.arange(50) * 1e6
    there, back = (way + rng.exponential(3_000.0, 50) for way in ways_ns)
    heard = asked + there + ahead_ns
    answered = heard + 2_000.0
    return np.stack([asked, heard, answered, answered - ahead_ns + back], axis=1)


def bounds(root: int, ranks: int, of_pair: dict[tuple[int, int], np.ndarray]) -> Bounds:
    blocks = [as_collectives(np.array(pair), times) for pair, times in of_pair.items()]
    return bounds_of(blocks, np.full(ranks, root))


def test_an_exchange_bounds_an_offset_by_its_round_trip() -> None:
    times = probes(0.0, np.random.default_rng(0))
    found = bounds(0, 2, {(0, 1): times})
    best = (times[:, 1] - times[:, 0]).min() + (times[:, 3] - times[:, 2]).min()
    assert found.ahead[1] + found.behind[1] == pytest.approx(best, abs=1)
    assert found.slack_ns == 0
    assert 16_000 <= best < 18_000


def test_an_offset_that_cannot_be_is_moved() -> None:
    found = bounds(0, 2, {(0, 1): probes(1e6, np.random.default_rng(0))})
    # the clock of rank 1 is 1 ms ahead: so much, within a round trip, is taken from it
    assert found.moved[1] - found.moved[0] == pytest.approx(-1e6, abs=20_000)


def test_probes_are_chained() -> None:
    rng = np.random.default_rng(1)
    found = bounds(1, 3, {(0, 1): probes(0.0, rng), (0, 2): probes(0.0, rng)})
    # ranks 1 and 2 never spoke to each other: both round trips lie between them
    assert 32_000 <= found.ahead[2] + found.behind[2] < 36_000


def test_probes_that_cannot_be_true_are_said_to_contradict() -> None:
    times = probes(0.0, np.random.default_rng(2), ways_ns=(-20_000.0, 2_000.0))
    assert bounds(0, 2, {(0, 1): times}).slack_ns > 1_000


def test_large_groups_prove_the_same_by_way_of_their_instances() -> None:
    rng = np.random.default_rng(4)
    start = rng.uniform(0, 1_000, (3, 9))
    end = 1_500 + rng.uniform(0, 1_000, (3, 9))
    whole = Block(np.arange(9), start, end, np.full(3, 500.0), (0, 0), proves=True)
    pairs = [
        Block(np.array([i, j]), start[:, [i, j]], end[:, [i, j]], np.full(3, 500.0), (i, 0), True)
        for i in range(9)
        for j in range(i)
    ]
    root = np.zeros(9, np.int64)
    one, other = bounds_of([whole], root), bounds_of(pairs, root)
    assert one.ahead[1:] == pytest.approx(other.ahead[1:], abs=1)
    assert one.behind[1:] == pytest.approx(other.behind[1:], abs=1)


def test_a_message_proves_one_way_alone() -> None:
    sends = np.array([[1.0, 0.0]])
    block = Block(
        np.arange(2), np.array([[0.0, 50.0]]), np.array([[100.0, 120.0]]), np.array([70.0]),
        (0, 2), False, sends,
    )  # fmt: skip
    found = bounds_of([block], np.zeros(2, np.int64))
    assert found.behind[1] == pytest.approx(120, abs=1)
    assert found.ahead[1] == np.inf
