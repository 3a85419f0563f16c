"""What ends near a moment leave open of a clock, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.traffic import woven
from traceweave.arrays import Floats
from traceweave.clocks.clock import RankInfo
from traceweave.clocks.estimate import fit_clocks
from traceweave.clocks.matrices import Block
from traceweave.clocks.near_ends import Lateness, late_against
from traceweave.clocks.residuals import scatter_of_few
from traceweave_simulator.traffic_jobs import TP_DP_ALIKE, TWO_STREAMS, UNIFORM, Job
from traceweave_simulator.traffic_tables import outside_bounds, true_offsets

EVER = -np.inf, np.inf


def lateness(late: list[float], moved_ns: float = 0.0) -> Lateness:
    """Ends one second apart."""
    return Lateness(((np.arange(len(late)) * 1e9, np.array(late)),), moved_ns)


@pytest.mark.parametrize("moment", [2e9, 5e9, 6e9, 9e9])
def test_a_line_midway_between_two_levels_is_half_the_step_off_wherever(moment: float) -> None:
    assert lateness([-50.0] * 6 + [50.0] * 6).left_open(moment, *EVER) == 50


def test_ends_on_the_other_side_of_the_moment_do_not_count() -> None:
    # a fit that is right before the step, and 100 off after it
    late = lateness([0.0] * 8 + [100.0] * 30)
    assert late.left_open(20e9, *EVER) == 100
    assert late.left_open(8e9, *EVER) == 100
    # nor do those beyond the row, which ends with the seventh end
    assert late.left_open(5e9, -np.inf, 7e9) == 0


def test_few_ends_are_believed_to_three_standard_errors() -> None:
    # every other end 20 late: each lies 20 from the middle of its neighbours
    late = [0.0, 20.0] * 20
    noise = 1.4826 * 20 / np.sqrt(1.5)
    assert scatter_of_few(np.array(late)) == pytest.approx(noise)
    # five of 40 are asked at least: three of those are 20 late
    assert lateness(late).left_open(19e9, *EVER) == pytest.approx(20 + 3 * noise / np.sqrt(5))
    # of two ends nothing tells the scatter from how far they lie apart
    assert lateness([0.0, 20.0]).left_open(0.0, *EVER) == pytest.approx(10 + 60 / np.sqrt(2))


# what was wrong: clocks that causality proves to 0.7 ms were bounded by 7 ms, since gloo's ends lie
# 5 ms apart
def test_ends_that_lie_ms_apart_count_only_where_they_contradict() -> None:
    assert lateness([0.0, 20e6] * 20).left_open(19e9, *EVER) == 0
    noise = 1.4826 * 4e6 / np.sqrt(1.5)
    contradicted = lateness([18e6, 22e6] * 20).left_open(19e9, *EVER)
    assert contradicted == pytest.approx(22e6 + 3 * noise / np.sqrt(5))


def test_without_ends_nothing_is_said() -> None:
    assert lateness([]).left_open(0.0, *EVER) == 0
    assert lateness([5.0] * 9, moved_ns=70.0).left_open(0.0, 100e9, 200e9) == 0


def test_where_a_clock_was_moved_from_its_ends_it_is_off_by_as_much() -> None:
    assert lateness([5.0] * 9, moved_ns=-70.0).left_open(0.0, *EVER) == 75


def test_two_ranks_that_share_no_call_are_off_by_what_both_are() -> None:
    one, other = lateness([30.0] * 9), lateness([-12.0] * 9)
    assert Lateness(one.series + other.series).left_open(4e9, *EVER) == 42


def test_lateness_is_told_against_the_other_clock_in_the_same_call() -> None:
    # rank 2 shares calls with ranks 0 and 1 of the reference's clock, and one with rank 3 alone
    gone = np.nan
    end = np.array([[20.0, 22.0, 25.0, 90.0], [10.0, 14.0, 11.0, 99.0], [gone, gone, 30.0, 90.0]])
    block = Block(np.arange(4), end, end, end[:, 0], (0, 0), True)
    reference = np.array([True, True, False, False])
    at, late = late_against([block], [end], [(0, 2)], reference)
    assert at.tolist() == [11.0, 25.0]
    assert late.tolist() == [11.0 - 12.0, 25.0 - 21.0]


@given(
    before=st.integers(2, 40),
    after=st.integers(2, 40),
    step=st.floats(-1e6, 1e6),
    line=st.floats(-1e6, 1e6),
    data=st.data(),
)
def test_one_step_anywhere_is_covered_at_every_end(
    before: int, after: int, step: float, line: float, data: st.DataObject
) -> None:
    """Whatever level the line has: at each end, what is left open reaches the clock's, if no fewer
    than an eighth of the ends lie on either side."""
    assume(8 * min(before, after) >= before + after)
    clock = [0.0] * before + [step] * after
    late = lateness([level - line for level in clock])
    here = data.draw(st.integers(0, before + after - 1))
    assert late.left_open(here * 1e9, *EVER) >= abs(clock[here] - line) - 1e-6


def called(ranks: list[int], at: Floats, ahead: Floats, key: int) -> Block:
    """Calls of ranks 1 ms apart in their begin, on clocks so far ahead; a column each."""
    scatter = np.random.default_rng(key).normal(0, 1_000, (len(at), len(ranks)))
    end = at[:, None] + ahead + scatter
    start = end - 300_000 - 1e6 * (np.arange(len(ranks)) == np.arange(len(at))[:, None] % 2)
    return Block(np.array(ranks), start, end, (end - start).min(axis=1), (key, 0), True)


def test_an_offset_is_told_where_ends_tell_it_from_the_reference() -> None:
    # ranks 1 and 2 meet all the time, the reference after 700 ms only: it may have been elsewhere
    at = 10e6 * np.arange(1.0, 101.0)
    both = called([1, 2], at, np.zeros((100, 2)), 0)
    late = called([0, 1], at[70:] + 5e6, np.array([[0.0, 40_000.0]]), 1)
    ranks = [RankInfo(rank, None, 0, 1_010_000_000) for rank in range(3)]
    clocks, _ = fit_clocks(ranks, [both, late], 0)
    assert clocks[1].reference_local_ns == pytest.approx(at[70] + 5e6 + 40_000, abs=5_000)
    # rank 2 never met it: any moment is as good
    assert clocks[2].reference_local_ns == pytest.approx(505e6, abs=6e6)


@pytest.mark.parametrize(
    ("seed", "open_to"),
    [
        # of the first eight calls two hosts' are not matched with the others', and both step
        # within them alike: 0.88 ms off, 42 us bound
        (275, [2, 3, 6, 7]),
        # the reference's host steps before it meets any other: 0.69 ms off, 48 us bound
        (284, [2, 3]),
        # two hosts lost the world's last calls to the others: 0.87 ms off
        (285, [4, 5]),
    ],
)
def test_ranks_that_met_only_each_other_beyond_a_step_have_no_bound_there(
    seed: int, open_to: list[int]
) -> None:
    """Nor has the step itself."""
    job = Job(
        hosts=4, per_host=2, steps=8, program=TWO_STREAMS, gpu_us=2, end_jitter=5, ring_bias=6,
        with_seq=False, with_hosts=True, step_apart_us=1000, seed=seed,
    )  # fmt: skip
    with woven(job) as (con, run):
        rows = true_offsets(con, run)
        unbounded = [rank for rank, *_, bound in rows if bound is None]
        assert unbounded == sorted(2 * open_to)
        assert all(abs(found - true) <= bound for _, found, true, bound in rows if bound)


@pytest.mark.parametrize(
    "job",
    [
        Job(
            hosts=3, per_host=1, steps=15, program=UNIFORM, own_clocks=True, gpu_us=2,
            end_jitter=30, ring_bias=6, lost=0.05, jump_us=100, seed=31,
        ),
        Job(
            per_host=2, steps=8, program=UNIFORM, gpu_us=10, end_jitter=5, ring_bias=6,
            with_hosts=True, lost=0.01, jump_us=5000, wander_us=50, step_apart_us=50, seed=112,
        ),
        Job(
            hosts=3, per_host=1, steps=15, program=TP_DP_ALIKE, gpu_us=2, end_jitter=5,
            ring_bias=6, ring_shape="random", lost=0.01, step_apart_us=300, wander_apart_us=100,
            seed=125,
        ),
        Job(
            hosts=4, per_host=2, steps=6, program=TP_DP_ALIKE, gpu_us=10, end_jitter=5,
            ring_bias=6, with_hosts=True, wander_us=50, step_apart_us=300, wander_apart_us=100,
            seed=136,
        ),
        Job(
            hosts=4, per_host=4, steps=8, program=TP_DP_ALIKE, gpu_us=2, end_jitter=30,
            ring_bias=6, ring_shape="random", with_seq=False, lost=0.03, jump_us=300, seed=30,
        ),
        Job(
            per_host=2, steps=10, program=TWO_STREAMS, gpu_us=10, end_jitter=5, ring_bias=6,
            ring_shape="random", lost=0.01, wander_us=50, step_apart_us=300, seed=97,
        ),
        Job(
            per_host=1, steps=60, program=UNIFORM, own_clocks=True, gpu_us=2, end_jitter=5,
            ring_bias=6, with_seq=False, lost=0.01, step_apart_us=300, seed=15,
        ),
    ],
    ids=[
        "noisy ends", "eight calls", "three steps and wander", "four of each", "one in eight",
        "two ends between steps", "both in one gap",
    ],
)  # fmt: skip
def test_steps_that_few_ends_hide_or_cannot_place_are_in_bounds(job: Job) -> None:
    """Errors of 60 to 251 us had bounds of 19 to 187 us: causality of calls on both sides of a step
    that no line showed, two ends between steps, and both clocks set between two ends."""
    with woven(job) as (con, run):
        assert len(true_offsets(con, run)) >= job.hosts - 1
        assert outside_bounds(con, run) == []
