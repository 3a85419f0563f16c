"""Calls without numbers of clocks that step by about as long as a step of training takes: the
nearest call in time is another one then."""

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.marks import nightly
from tests.tables import empty_database
from traceweave.store.empty import create_tables
from traceweave.weave import WeaveSummary, weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import TP_DP_ALIKE, TWO_STREAMS, UNIFORM, Job, pipeline
from traceweave_simulator.traffic_tables import outside_bounds, store_traffic, wrong_matches

STEP_OF_TRAINING = Job(
    steps=30, program=TP_DP_ALIKE, own_clocks=True, gpu_us=10, end_jitter=50, ring_bias=6,
    with_seq=False, jump_us=5000, seed=9207,
)  # fmt: skip
"""Clocks of every other rank step by 5.0 ms in the middle; a step of training takes 4.4 to 5.0 ms.
In a group of one host, 36 instances joined a rank's calls with those that others made a step of
training before."""
MESSAGES = Job(
    steps=60, program=pipeline(2), own_clocks=True, gpu_us=2, end_jitter=30, ring_bias=6,
    ring_shape="random", straggler_ms=100, with_hosts=True, lost=0.01, wander_us=100,
    step_apart_us=300, seed=736,
)  # fmt: skip
"""Where rank 3 had stepped, 19 sends of its second microbatch were joined with what rank 7 received
of the first."""
LOST = Job(
    hosts=4, per_host=1, steps=10, program=TWO_STREAMS, ring_bias=6, ring_shape="random",
    with_seq=False, with_hosts=True, cut=12, lost=0.01, jump_us=1000, step_apart_us=1000,
    wander_apart_us=100, seed=6434,
)  # fmt: skip
"""The rank that recorded most lacks calls before its window; two others' calls there were joined
with each other, one operation apart."""


def woven(con: Connection, job: Job) -> tuple[WeaveSummary, int, int]:
    run = simulate_traffic(job)
    create_tables(con)
    store_traffic(con, run)
    summary = weave(con)
    return summary, wrong_matches(con, run), len(outside_bounds(con, run))


@pytest.mark.parametrize(
    ("job", "matched"),
    [
        pytest.param(STEP_OF_TRAINING, 0.8, id="a step of training", marks=nightly),
        pytest.param(MESSAGES, 0.65, id="messages", marks=nightly),
    ],
)
def test_a_clock_that_steps_as_far_as_the_program_repeats_itself(job: Job, matched: float) -> None:
    with empty_database() as con:
        summary, wrong, outside = woven(con, job)
        assert wrong == 0
        assert sum(summary.matched.values()) >= matched * summary.calls
        assert outside == 0


def test_calls_before_all_matched_ones_may_be_on_a_clock_that_stepped_since() -> None:
    with empty_database() as con:
        summary, wrong, _ = woven(con, LOST)
        assert wrong == 0
        assert sum(summary.matched.values()) > 50


# what was wrong: four instances joined calls after a step of 1 ms with the ones before, since
# beyond a call that one rank lacks most of that stretch were right; ten, whose ends run as unevenly
# as the program does
APART = Job(
    hosts=4, per_host=2, steps=30, program=TP_DP_ALIKE, own_clocks=True, drift_ppm=40, gpu_us=2,
    end_jitter=5, hiccup_us=150, with_seq=False, cut=7, lost=0.01, jump_us=1000, seed=101,
)  # fmt: skip
APART_BY_ONE = Job(
    per_host=2, steps=60, program=UNIFORM, end_jitter=1, with_seq=False, cut=8, lost=0.02,
    jump_us=1000, seed=255633,
)  # fmt: skip


@pytest.mark.parametrize("job", [APART, APART_BY_ONE])
def test_a_clock_that_steps_as_far_as_calls_lie_apart(job: Job) -> None:
    with empty_database() as con:
        summary, wrong, _ = woven(con, job)
        assert wrong == 0
        assert sum(summary.matched.values()) >= 0.9 * summary.calls


def test_calls_that_a_clock_set_back_lets_overlap_have_no_order() -> None:
    # set back by 0.97 ms, where a call follows another after 1.1: they seem to run at once, and on
    # some ranks the later one first
    job = Job(
        steps=60, program=UNIFORM, drift_ppm=20, gpu_us=10, end_jitter=50, ring_bias=6,
        with_seq=False, with_hosts=True, lost=0.01, jump_us=1000, wander_us=20, step_apart_us=1000,
        seed=1643,
    )  # fmt: skip
    with empty_database() as con:
        summary, wrong, _ = woven(con, job)
        assert wrong == 0
        assert sum(summary.matched.values()) > 400
        assert any("set back" in reason for reason in summary.unmatched)
