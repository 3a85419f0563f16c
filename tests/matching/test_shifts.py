"""Choosing a shift looks at candidates some at a time; how many makes no difference."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.arrays import Ints
from traceweave.matching import shifts
from traceweave.matching.calls import Calls

CALLS = 400


def _calls(start: Ints, noise: Ints) -> Calls:
    """One rank's calls: all-reduces and all-gathers in turns, of two sizes, without numbers."""
    none = np.full(len(start), -1, dtype=np.int64)
    zero = np.zeros(len(start), dtype=np.int64)
    turn = np.arange(len(start), dtype=np.int64)
    return Calls(
        call_id=turn,
        rank=zero,
        source=zero,
        label=zero,
        op=turn % 2,
        size=8 + 8 * (turn % 4 == 3),
        dtype=zero,
        seq=none,
        peer=none,
        peer_number=none,
        step=none,
        stream=zero,
        kernel=none,
        on_gpu=zero == 0,
        computing=zero > 0,
        start=start,
        end=start + 500 + noise,
        origin_ns=0,
    )


@pytest.mark.parametrize("at_a_time", [1, 7, shifts.SHORTLIST, 10 * CALLS])
def test_how_many_shifts_are_looked_at_together_makes_no_difference(
    monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    rng = np.random.default_rng(5)
    start = np.cumsum(rng.integers(1_000, 90_000, CALLS))
    a = _calls(start, rng.integers(0, 100, CALLS))
    b = _calls(start + 3_000, rng.integers(0, 100, CALLS))
    cut = b.take(np.arange(8, CALLS))  # its recording began eight calls later
    candidates = shifts._candidates(a, cut)
    assert len(candidates) > 2 * shifts.SHORTLIST
    listed = shifts._shortlist(a, cut, candidates, 1e6)
    monkeypatch.setattr(shifts, "AT_A_TIME", at_a_time)
    assert shifts._shortlist(a, cut, candidates, 1e6).tolist() == listed.tolist()
    assert -8 in listed
    assert shifts.choose_shift(a, cut, same_clock=False) == (-8, "")
