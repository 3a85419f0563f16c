from itertools import pairwise
from typing import Any

import pytest

from tests.analyses.builders import Builder, Interval, rows
from tests.analyses.kernels_of_groups import pick
from tests.marks import first_at_once

PLACE = ("rank", "step", "first_rank", "stage", "stages", "microbatches", "schedule", "in_flight")


def _message(build: Builder, source: int, sent: Interval, target: int, received: Interval) -> None:
    each = {source: {"op": "send"}, target: {"op": "recv"}}
    build.collective({source: sent, target: received}, group_id=1, step=1, each=each)


def _compute(build: Builder, rank: int, *at: Interval) -> None:
    for interval in at:
        build.gpu(rank, interval, step=1)


def _one_forward_one_backward(build: Builder) -> None:
    """Two stages, three micro-batches, 10 ns forward, 20 ns backward, messages take no time."""
    for rank in (0, 1):
        build.rank(rank)
        build.host(rank, (125, 140), "Optimizer.step#AdamW.step", "annotation", step=1)
        _compute(build, rank, (130, 150))
    build.group(1, [0, 1], role="pp", role_source="name")
    _compute(build, 0, (0, 10), (10, 20), (40, 60), (60, 70), (70, 90), (100, 120))
    _compute(build, 1, (10, 20), (20, 40), (40, 50), (50, 70), (70, 80), (80, 100))
    _message(build, 0, (10, 10), 1, (0, 10))
    _message(build, 0, (20, 20), 1, (20, 20))
    _message(build, 0, (70, 70), 1, (50, 70))
    _message(build, 1, (40, 40), 0, (20, 40))
    _message(build, 1, (70, 70), 0, (60, 70))
    _message(build, 1, (100, 100), 0, (90, 100))


def test_the_bubble_of_an_ideal_1f1b_is_the_least_there_is(build: Builder) -> None:
    _one_forward_one_backward(build)
    got = rows(build.con, "pipeline")
    assert pick(got, *PLACE) == [(0, 1, 0, 0, 2, 3, "1f1b", 2), (1, 1, 0, 1, 2, 3, "1f1b", 2)]
    names = ("window_start_ns", "window_ns", "busy_ns", "bubble_ns", "bubble_share", "ideal_share")
    assert pick(got, *names, "excess_ns", "note") == [(0, 120, 90, 30, 0.25, 0.25, 0, None)] * 2
    assert pick(got, "equal_ns") == [(120,)] * 2
    # the last stage starts at 10 and has finished at 100
    assert pick(got, "warmup_ns", "steady_ns", "drain_ns") == [(10, 90, 20)] * 2
    bubbles = ("warmup_bubble_ns", "steady_bubble_ns", "drain_bubble_ns")
    assert pick(got, *bubbles) == [(0, 30, 0), (10, 0, 20)]


def test_micro_batches_of_unequal_length_take_longer_than_equal_ones(build: Builder) -> None:
    # the second takes three times as long on both stages; two of 20 would take 20 + 20 + 20
    for rank in (0, 1):
        build.rank(rank)
    build.group(1, [0, 1], role="pp", role_source="name")
    _compute(build, 0, (0, 10), (10, 40))
    _compute(build, 1, (10, 20), (40, 70))
    _message(build, 0, (10, 10), 1, (0, 10))
    _message(build, 0, (40, 40), 1, (20, 40))
    got = rows(build.con, "pipeline")
    assert (
        pick(got, "schedule", "window_ns", "busy_ns", "equal_ns")
        == [("forward only", 70, 40, 60)] * 2
    )


def test_two_tensors_of_a_micro_batch_are_one(build: Builder) -> None:
    """As activations and residuals: what was wrong is that the ideal bubble of five was told."""
    build.ranks(2)
    build.group(1, [0, 1], role="pp", role_source="name")
    _compute(build, 0, (0, 10), (10, 20))
    _compute(build, 1, (10, 20), (20, 30))
    for at in (10, 20):
        for _ in range(2 if at == 10 else 3):
            _message(build, 0, (at, at), 1, (at - 10, at))
    got = rows(build.con, "pipeline")
    assert pick(got, "microbatches", "sends", "receives") == [(2, 5, 0), (2, 0, 5)]
    names = ("window_ns", "equal_ns", "excess_ns", "ideal_share")
    assert pick(got, *names) == [(30, 30, 0, 1 / 3)] * 2


def test_a_stage_that_communicates_within_itself_needs_that_too(build: Builder) -> None:
    """As with tensor parallelism: what was wrong is that its time was a delay of the pipeline."""
    build.ranks(4)
    build.group(1, [0, 1], role="pp", role_source="name")
    # 4 ns of compute, 6 of the collective, 10 of compute; rank 2 is one of stage 0, not seen
    for stage, at in ((0, 0), (1, 20)):
        for n in (0, 20):
            _compute(build, stage, (at + n, at + n + 4), (at + n + 10, at + n + 20))
            build.collective({stage: (at + n + 4, at + n + 10)}, group_id=2 + stage, step=1)
            # with the other stage: it waits for that
            build.collective({stage: (at + n + 4, at + n + 5)}, group_id=4, step=1)
    build.group(2, [0, 2], role="tp", role_source="name")
    build.group(3, [1, 3], role="tp", role_source="name")
    build.group(4, [0, 1, 2, 3], role="world", role_source="name")
    _message(build, 0, (20, 20), 1, (0, 20))
    _message(build, 0, (40, 40), 1, (20, 40))
    got = rows(build.con, "pipeline")
    assert pick(got, "window_ns", "busy_ns", "equal_ns") == [(60, 28, 60)] * 2


def test_receives_wait_for_the_send_and_may_hold_up_compute(build: Builder) -> None:
    _one_forward_one_backward(build)
    got = rows(build.con, "pipeline")
    names = ("receives", "receive_wait_ns", "receive_blocked_ns", "sends", "send_wait_ns")
    # rank 0 computes while it waits for its second gradient, rank 1 for its third micro-batch
    assert pick(got, *names) == [(3, 20 + 10 + 10, 20 + 10, 3, 0), (3, 10 + 20, 10, 3, 0)]


def test_without_an_optimizer_range_the_window_reaches_further(build: Builder) -> None:
    _one_forward_one_backward(build)
    build.con.execute("DELETE FROM base.host_ops")
    got = rows(build.con, "pipeline")
    assert pick(got, "window_ns", "busy_ns") == [(150, 110)] * 2
    assert got[0]["note"].startswith("no optimizer range")


@first_at_once(2)
@pytest.mark.parametrize(
    ("microbatches", "before", "schedule"),
    [(3, 3, "gpipe"), (2, 2, "gpipe or 1f1b"), (5, 4, "other"), (5, 0, "forward only")],
)
def test_the_schedule_is_told_by_what_is_sent_before_the_first_gradient(
    build: Builder, microbatches: int, before: int, schedule: str
) -> None:
    for rank in (0, 1):
        build.rank(rank)
        _compute(build, rank, (0, 500))
    for number in range(microbatches):
        at = 10 * number if number < before or not before else 200 + 10 * number
        _compute(build, 0, (at - 2, at))
        _message(build, 0, (at, at + 5), 1, (at, at + 5))
    if before:
        _message(build, 1, (150, 160), 0, (150, 160))
    got = rows(build.con, "pipeline")
    assert pick(got, "schedule", "microbatches") == [(schedule, microbatches)] * 2
    ideal = None if schedule == "other" else 1 / (microbatches + 1)
    assert pick(got, "ideal_share") == [(ideal,)] * 2


def test_messages_to_nobody_known_are_no_ring(build: Builder) -> None:
    for rank in range(2):
        build.rank(rank)
        _compute(build, rank, (0, 100))
        op = {"op": ("send", "recv")[rank]}
        build.collective({rank: (10, 20)}, step=1, matched=False, each={rank: op})
    got = rows(build.con, "pipeline")
    assert pick(got, "rank", "first_rank", "stage", "window_ns", "sends", "receives") == [
        (0, None, None, None, 1, 0),
        (1, None, None, None, 0, 1),
    ]
    reason = "which ranks are the other sides of its messages is not known: issues says why"
    seen = "some messages were seen on one side only"
    assert pick(got, "note") == [(f"not computable: {reason}; {seen}",)] * 2


def test_a_ring_of_stages_has_no_numbers(build: Builder) -> None:
    build.ranks(3)
    for source, target in [*pairwise(range(3)), (2, 0)]:
        _message(build, source, (0, 10), target, (0, 10))
        _message(build, target, (20, 30), source, (20, 30))
    got = rows(build.con, "pipeline")
    assert pick(got, "rank", "first_rank", "stage", "window_ns", "ideal_share", "sends") == [
        (rank, None, None, None, None, 2) for rank in range(3)
    ]
    assert {row["note"] for row in got} == {
        "not computable: its messages do not form a chain; an interleaved pipeline and ring"
        " attention form a ring"
    }


def test_a_stage_that_was_not_recorded_leaves_the_rest_without_numbers(build: Builder) -> None:
    build.rank(0)
    _compute(build, 0, (0, 10))
    each: dict[int, dict[str, Any]] = {0: {"op": "send", "peer": 1}}
    build.collective({0: (10, 20)}, step=1, matched=False, each=each)
    (row,) = rows(build.con, "pipeline")
    assert (row["stage"], row["stages"], row["microbatches"], row["window_ns"]) == (0, 2, 1, None)
    assert row["note"].startswith("not computable: not every stage was recorded")
    assert row["receive_wait_ns"] is None


def test_messages_of_groups_for_something_else_are_left_out(build: Builder) -> None:
    build.ranks(2)
    build.group(1, [0, 1], role="cp", role_source="description")
    _message(build, 0, (0, 10), 1, (0, 10))
    assert rows(build.con, "pipeline") == []
    assert len(rows(build.con, "pipeline", group_id=1)) == 2
