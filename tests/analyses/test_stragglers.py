from __future__ import annotations

from tests.analyses.builders import Builder, rows

NAMES = (
    "rank", "step", "instances", "times_last", "caused_wait_ns", "cause", "below_resolution",
    "resolved_wait_ns", "delay_max_ns", "last_share", "note",
)  # fmt: skip
NEVER, NOT_DERIVED = "it was never last", "causes are not derived"


def _three_ranks(build: Builder, residual_ns: int | None = 0) -> None:
    # starts      rank 0   rank 1   rank 2
    # step 1         0       10       40     rank 2 is 30 late, two wait
    # step 1       100      105      105     together: nobody is last
    # step 2       220      200      200     rank 0 is 20 late, two wait
    # step 2       300               350     rank 2 is 50 late, one waits
    for rank in (0, 1, 2):
        build.rank(rank, residual_ns=residual_ns)
    build.collective({0: (0, 60), 1: (10, 60), 2: (40, 60)}, step=1)
    build.collective({0: (100, 160), 1: (105, 160), 2: (105, 160)}, step=1)
    build.collective({0: (220, 260), 1: (200, 260), 2: (200, 260)}, step=2)
    build.collective({0: (300, 400), 2: (350, 400)}, step=2)


def test_a_rank_is_charged_with_the_time_that_the_others_waited_for_it_alone(
    build: Builder,
) -> None:
    _three_ranks(build)
    assert rows(build.con, "stragglers") == [
        dict(zip(NAMES, row, strict=True))
        for row in (
            (2, None, 4, 2, 110, None, False, 110, 50, 0.5, NOT_DERIVED),
            (0, None, 4, 1, 40, None, False, 40, 20, 0.25, NOT_DERIVED),
            (1, None, 3, 0, 0, None, False, 0, None, 0.0, NEVER),
        )
    ]


def test_steps_can_be_told_apart(build: Builder) -> None:
    _three_ranks(build)
    got = rows(build.con, "stragglers", per="step")
    names = ("rank", "step", "instances", "times_last", "caused_wait_ns")
    assert [tuple(row[name] for name in names) for row in got] == [
        (2, 1, 2, 1, 60),
        (2, 2, 2, 1, 50),
        (0, 2, 2, 1, 40),
        (0, 1, 2, 0, 0),
        (1, 1, 2, 0, 0),
        (1, 2, 1, 0, 0),
    ]


def test_delays_that_the_clocks_cannot_tell_are_below_resolution(build: Builder) -> None:
    _three_ranks(build, residual_ns=31)
    got = rows(build.con, "stragglers")
    assert [(r["rank"], r["resolved_wait_ns"], r["below_resolution"]) for r in got] == [
        (2, 50, True),
        (0, 0, True),
        (1, 0, False),
    ]


def test_without_anchors_nothing_is_resolved(build: Builder) -> None:
    _three_ranks(build, residual_ns=None)
    got = rows(build.con, "stragglers")
    assert [(r["resolved_wait_ns"], r["below_resolution"]) for r in got] == [
        (0, True),
        (0, True),
        (0, False),
    ]


def test_a_rank_alone_and_unmatched_operations_make_nobody_wait(build: Builder) -> None:
    build.rank(0)
    build.collective({0: (0, 10)})
    build.collective({0: (20, 30)}, matched=False)
    assert rows(build.con, "stragglers") == []
