"""Sequence numbers that do not name the same operations on all ranks."""

import numpy as np
import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.marks import at_once
from traceweave.matching.outcome import ALONE, MISNUMBERED
from traceweave.weave import weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import DDP, TP_DP, Job, Op
from traceweave_simulator.traffic_tables import store_traffic, wrong_matches

ALIKE = tuple(Op("world", "all_reduce", 1_048_576, 60.0, pause) for pause in (300.0, 2500.0, 900.0))
"""Nothing but time tells one operation from the next."""


def renumber(con: Connection, rank: int, since: int) -> None:
    """Let a rank count one more from a number on."""
    con.execute(
        "UPDATE base.collective_calls SET seq = seq + 1 WHERE rank = $rank AND seq >= $since",
        {"rank": rank, "since": since},
    )


@pytest.mark.parametrize("rank", [0, 3], ids=["first rank", "last rank"])
def test_a_rank_that_counts_otherwise_is_left_out(empty_run: Connection, rank: int) -> None:
    run = simulate_traffic(Job(steps=60, per_host=2, program=ALIKE))
    store_traffic(empty_run, run)
    renumber(empty_run, rank, 0)
    summary = weave(empty_run)
    assert wrong_matches(empty_run, run) == 0
    assert summary.unmatched[MISNUMBERED] == 180 - summary.unmatched.get(ALONE, 0)
    assert summary.matched == {"seq": 3 * 180}


def test_a_stretch_after_which_numbers_are_off_is_left_out(empty_run: Connection) -> None:
    run = simulate_traffic(Job(steps=60, per_host=2, program=ALIKE))
    store_traffic(empty_run, run)
    renumber(empty_run, 2, 100)
    summary = weave(empty_run)
    assert wrong_matches(empty_run, run) <= 8  # a window of eight is judged as a whole
    assert 75 <= summary.unmatched[MISNUMBERED] <= 89
    assert summary.matched["seq"] > 620


@pytest.mark.parametrize("program", [DDP, TP_DP], ids=["ddp", "tp and dp"])
@pytest.mark.parametrize(
    "trouble",
    at_once(
        [{"jump_us": 5000.0}, {"wander_us": 300.0}, {"straggler_ms": 100.0}, {"end_jitter": 50.0}],
        {"straggler_ms": 100.0},
        {"end_jitter": 50.0},
    ),
    ids=lambda t: next(iter(t)),
)
def test_clocks_and_waits_do_not_look_like_wrong_numbers(
    empty_run: Connection, program: tuple[Op, ...], trouble: dict[str, float]
) -> None:
    job = Job(steps=100, per_host=2, program=program, **trouble)  # type: ignore[arg-type]
    store_traffic(empty_run, simulate_traffic(job))
    summary = weave(empty_run)
    assert summary.unmatched == {}
    assert np.array_equal(list(summary.matched), ["seq"])
