"""Calls that order alone makes partners where a clock steps more than once among them."""

import numpy as np
import pytest

from tests.matching.test_shifts import _calls
from traceweave.arrays import Ints
from traceweave.matching import alignment
from traceweave.matching.alignment import _few_between, align_pair


def _partners(levels: list[tuple[int, int]], spacing: tuple[int, int], seed: int) -> Ints:
    """Who the calls of a rank are matched with whose clock is ahead of the other's by so many ns
    for so many calls."""
    ahead = np.concatenate([np.full(count, height, np.int64) for count, height in levels])
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.integers(*spacing, len(ahead)))
    a, b = (_calls(start + by, rng.integers(400_000, 403_000, len(ahead))) for by in (0, ahead))
    return align_pair(a, b).partner


def test_four_calls_between_two_steps_are_matched_as_those_on_both_sides() -> None:
    # too few to be judged by themselves; those after them are put off twice as far
    levels = [(30, 0), (4, 250_000), (14, 500_000)]
    assert _partners(levels, (2_000_000, 9_000_000), 2).tolist() == list(range(48))


@pytest.mark.parametrize(
    ("kept", "apart", "found"),
    [
        pytest.param("110011", "100000", "000000", id="none confirmed beside them was apart"),
        pytest.param("110011", "110000", "001100", id="those before them were"),
        pytest.param("110011", "000011", "001100", id="those after them were"),
        pytest.param("001111", "001111", "000000", id="nothing before them"),
        pytest.param("111100", "111100", "000000", id="nothing after them"),
        pytest.param("1000001", "1000001", "0111110", id="five"),
        pytest.param("10000001", "10000001", "00000000", id="six can be judged"),
    ],
)
def test_few_calls_between_confirmed_ones(kept: str, apart: str, found: str) -> None:
    flags = [np.array([digit == "1" for digit in text]) for text in (kept, apart)]
    assert "".join(str(int(flag)) for flag in _few_between(*flags)) == found


def test_a_stretch_off_the_line_may_hold_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # three levels; no shift explains the last 29 calls together, the same does each of two parts
    levels = [(40, 0), (13, 260_000), (16, -300_000)]
    assert _partners(levels, (90_000, 150_000), 103).tolist() == list(range(69))
    monkeypatch.setattr(alignment, "STEPS", 0)
    assert (_partners(levels, (90_000, 150_000), 103)[40:] < 0).all()
