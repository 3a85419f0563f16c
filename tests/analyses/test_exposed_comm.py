"""exposed_comm: what each collective costs beyond what compute hides."""

import pytest

from tests.analyses.builders import Builder, rows
from tests.marks import first_at_once, nightly

COLUMNS = ("rank", "wait_ns", "exposed_ns", "exposed_wait_ns", "exposed_transfer_ns", "late_rank",
           "late_ns")  # fmt: skip


def _answer(build: Builder) -> list[tuple[object, ...]]:
    found = sorted(rows(build.con, "exposed_comm"), key=lambda r: (r["start_ns"], r["rank"]))
    return [tuple(row[column] for column in COLUMNS) for row in found]


def _three(build: Builder, residual_ns: int | None = 0) -> None:
    """Rank 2 comes last, 30 after rank 1 and 40 after rank 0; the transfer takes 20.

    rank 0  ########====================----        # compute, = waiting, - transfer"""
    build.world(3, residual_ns)
    build.gpu(0, (0, 115))
    build.gpu(1, (0, 110))
    build.gpu(2, (0, 140))
    build.collective({0: (100, 160), 1: (110, 160), 2: (140, 160)})


def test_waiting_transfer_and_lateness_are_what_no_compute_hides(build: Builder) -> None:
    _three(build)
    assert _answer(build) == [
        # waits 100 to 140, computes until 115; rank 2 alone is late from 110, bare from 115
        (0, 40, 45, 25, 20, 2, 25),
        (1, 30, 50, 30, 20, 2, 30),
        (2, 0, 20, 0, 20, None, None),
    ]


@first_at_once()
@pytest.mark.parametrize("residual_ns", [31, None])
def test_nobody_is_late_below_the_resolution_of_the_clocks(
    build: Builder, residual_ns: int | None
) -> None:
    _three(build, residual_ns)
    assert [row[1:] for row in _answer(build)] == [
        (40, 45, 25, 20, None, None),
        (30, 50, 30, 20, None, None),
        (0, 20, 0, 20, None, None),
    ]


@nightly
def test_waiting_in_two_collectives_at_once_is_charged_once(build: Builder) -> None:
    build.world(2)
    build.collective({0: (0, 110), 1: (100, 110)})
    build.collective({0: (50, 130), 1: (120, 130)})
    assert [row[-1] for row in _answer(build)] == [100, 20, None, None]


def test_one_rank_alone_and_a_broadcast_are_not_split(build: Builder) -> None:
    build.rank(0)
    build.rank(1)
    build.group(0, [0, 1])
    build.gpu(0, (0, 10))
    build.collective({0: (5, 25)}, matched=False)
    build.collective({0: (30, 50), 1: (40, 50)}, op="broadcast")
    assert _answer(build) == [
        (0, None, 15, None, None, None, None),
        (0, None, 20, None, None, None, None),
        (1, None, 10, None, None, None, None),
    ]


@nightly
def test_collectives_over_stages_of_a_pipeline_are_staged(build: Builder) -> None:
    build.world(4)
    build.group(1, [0, 1])
    build.collective({0: (0, 10), 1: (0, 10), 2: (0, 10), 3: (0, 10)})
    build.collective({0: (20, 30), 1: (20, 30)}, group_id=1)
    # stage 1 is ranks 0 and 1, stage 2 ranks 2 and 3
    build.con.execute(
        "INSERT INTO base.collective_calls (call_id, rank, source_id, op, start_local_ns,"
        " duration_ns, evidence) VALUES (900, 0, 0, 'send', 40, 10, 'metadata'),"
        " (901, 2, 2, 'recv', 40, 10, 'metadata')"
    )
    build.con.execute("INSERT INTO base.matches VALUES (900, 0, 90, 'seq'), (901, 0, 90, 'seq')")
    staged = {(r["op"], r["group_id"], r["is_staged"]) for r in rows(build.con, "exposed_comm")}
    assert staged == {
        ("all_reduce", 0, True),
        ("all_reduce", 1, False),
        ("send", 0, True),
        ("recv", 0, True),
    }


@nightly
def test_compute_that_begins_where_a_collective_ends_does_not_count(build: Builder) -> None:
    for rank in range(2):
        build.rank(rank)
        for at in range(0, 1000, 100):
            build.gpu(rank, (at, at + 60))
    build.group(0, [0, 1])
    for at in range(0, 1000, 100):
        build.collective({0: (at + 60, at + 100), 1: (at + 60, at + 100)})
    assert {row[2] for row in _answer(build)} == {40}
