"""Who a call's partner is where calls are missing in between: by a vote of ends."""

from dataclasses import replace

import numpy as np
import pytest

from tests.matching.test_shifts import _calls
from traceweave.matching.alignment import align_pair
from traceweave.matching.calls import Calls

STEPS, OF_A_STEP = 23, 3
LOST, OTHER = [10, 27, 45], [33]
"""Calls that the two ranks have lost: no shift explains half of the rest."""


def _rank(ahead_ns: int, lost: list[int], first_step: int | None) -> Calls:
    """Three calls a step, in steps that take 82 ms to within 0.1 ms; the group's other members end
    them within 20 us."""
    rng = np.random.default_rng(11)
    steps = np.cumsum(82_000_000 + rng.integers(-50_000, 50_000, STEPS))
    within = np.array([50_000_000, 58_000_000, 71_000_000])
    within = within + rng.integers(-100_000, 100_000, (STEPS, OF_A_STEP))
    start = (steps[:, None] + within).ravel() + ahead_ns
    noise = np.random.default_rng(12 + len(lost)).integers(0, 20_000, len(start))
    calls = _calls(start, noise)
    numbers = np.repeat(np.arange(STEPS), OF_A_STEP)
    step = np.full(len(start), -1) if first_step is None else numbers + first_step
    alike = replace(calls, op=0 * calls.op, size=0 * calls.size, step=step)
    return alike.take(np.delete(np.arange(len(start)), lost))


# what was wrong: calls a step apart vote for one offset nearly as often, since clocks may drift by
# more than steps differ, so that hosts whose calls no label names stayed on their own wall clocks
@pytest.mark.parametrize(("first", "found"), [(100, True), (None, False)])
def test_calls_of_the_same_step_decide_where_steps_take_evenly_long(
    first: int | None, found: bool
) -> None:
    a, b = _rank(0, LOST, first), _rank(300_000_000, OTHER, first)
    mine, theirs = (np.delete(np.arange(STEPS * OF_A_STEP), lost) for lost in (LOST, OTHER))
    partner = align_pair(a, b).partner
    matched = partner >= 0
    assert (theirs[partner[matched]] == mine[matched]).all()
    assert (matched.mean() > 0.9) == found


def test_steps_that_are_numbered_otherwise_do_not_put_calls_of_one_clock_off() -> None:
    a, b = _rank(0, LOST, 100), _rank(0, OTHER, 101)
    mine, theirs = (np.delete(np.arange(STEPS * OF_A_STEP), lost) for lost in (LOST, OTHER))
    partner = align_pair(a, b, same_clock=True).partner
    matched = partner >= 0
    assert (theirs[partner[matched]] == mine[matched]).all()
