"""accounting: where every nanosecond went; test_one_number holds it against the other analyses."""

from tests.analyses.builders import Builder, rows
from tests.marks import nightly

Interval = tuple[int, int]
KEYS = ("rank", "state", "cause", "origin_rank", "time_ns")


def _all_reduce(build: Builder, at: dict[int, Interval]) -> None:
    each = {
        rank: {"gpu_op_id": build.gpu(rank, span, "communication", stream=9)}
        for rank, span in at.items()
    }
    build.collective(at, step=1, each=each)


def _of_step(build: Builder) -> list[tuple[object, ...]]:
    return [tuple(r[key] for key in KEYS) for r in rows(build.con, "accounting") if r["step"] == 1]


def test_time_is_divided_by_state_cause_and_origin(build: Builder) -> None:
    # rank 0  ####==========----       # compute, = waits for rank 1 from 40 to 140, - transfer
    # rank 1  ##############----       until 160; of 200 nothing runs for the last 40
    for rank in range(2):
        build.rank(rank, 0)
        build.step(rank, 1, host=(0, 200), device=(0, 200))
    build.group(0, [0, 1])
    build.gpu(0, (0, 40))
    build.gpu(1, (0, 140))
    _all_reduce(build, {0: (40, 160), 1: (140, 160)})
    assert _of_step(build) == [
        (0, "waiting", None, 1, 100),
        (0, "compute", None, None, 40),
        (0, "idle", "short", None, 40),
        (0, "transfer", None, None, 20),
        (1, "compute", None, None, 140),
        (1, "idle", "short", None, 40),
        (1, "transfer", None, None, 20),
    ]


@nightly
def test_where_a_member_is_not_seen_waiting_and_transfer_are_not_told_apart(build: Builder) -> None:
    for rank in range(2):
        build.rank(rank, 0)
        build.step(rank, 1, host=(0, 100), device=(0, 100))
    build.group(0, [0, 1, 2])
    build.gpu(1, (0, 10))
    _all_reduce(build, {0: (0, 100), 1: (10, 100)})
    assert _of_step(build) == [
        (0, "communication", None, None, 90),
        (0, "waiting", None, 1, 10),
        (1, "communication", None, None, 90),
        (1, "compute", None, None, 10),
    ]


@nightly
def test_waits_for_several_that_are_late_together_have_no_origin(build: Builder) -> None:
    for rank in range(3):
        build.rank(rank, 5)
        build.step(rank, 1, host=(0, 100), device=(0, 100))
    build.group(0, [0, 1, 2])
    build.gpu(1, (0, 50))
    build.gpu(2, (0, 52))
    _all_reduce(build, {0: (0, 100), 1: (50, 100), 2: (52, 100)})
    # that the last comes 2 ns after the last but one is below the resolution of 5
    assert [row for row in _of_step(build) if row[1] == "waiting"] == [
        (0, "waiting", None, None, 52),
        (1, "waiting", None, None, 2),
    ]
