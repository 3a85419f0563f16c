"""Calls that order alone makes partners where a clock steps more than once among them."""

import numpy as np
import pytest

from tests.matching.test_shifts import _calls
from traceweave.arrays import Ints
from traceweave.matching import alignment
from traceweave.matching.alignment import align_pair


def _partners(levels: list[tuple[int, int]], spacing: tuple[int, int], seed: int) -> Ints:
    """Who the calls of a rank are matched with whose clock is ahead of the other's by so many ns
    for so many calls."""
    ahead = np.concatenate([np.full(count, height, np.int64) for count, height in levels])
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.integers(*spacing, len(ahead)))
    a, b = (_calls(start + by, rng.integers(400_000, 403_000, len(ahead))) for by in (0, ahead))
    return align_pair(a, b).partner


def test_a_stretch_off_the_line_may_hold_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    # three levels; no shift explains the last 29 calls together, the same does each of two parts
    levels = [(40, 0), (13, 260_000), (16, -300_000)]
    assert _partners(levels, (90_000, 150_000), 103).tolist() == list(range(69))
    monkeypatch.setattr(alignment, "STEPS", 0)
    assert (_partners(levels, (90_000, 150_000), 103)[40:] < 0).all()
