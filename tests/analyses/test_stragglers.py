from collections.abc import Sequence
from itertools import product

import pytest

from tests import simulated_runs
from tests.analyses.builders import Builder, Interval, rows, told
from tests.cases import cases
from tests.conftest import Recorded, Simulated
from tests.marks import first_at_once, nightly
from traceweave_simulator import Config

NAMES = (
    "rank", "step", "instances", "times_last", "caused_wait_ns", "cause", "below_resolution",
    "resolved_wait_ns", "delay_max_ns", "last_share", "note", "cause_detail", "cause_share",
    "times_shortest", "shortest_share", "worst_steps", "worst_share", "host", "host_share", "stage",
    "known_instances", "known_last", "waited_ns", "waited_free_ns", "inside_ns",
    "origin_wait_ns", "passed_on_ns", "origin_rank", "chance",
)  # fmt: skip
NEVER = "it was never last"
TOO_SMALL = "at least half of its lateness is below the clock resolution"
NOTHING_BEFORE = "no earlier collective of the same ranks to measure from"


def _three_ranks(build: Builder, residual_ns: int | None = 0) -> None:
    # starts      rank 0   rank 1   rank 2
    # step 1         0       10       40     rank 2 is 30 late, two wait
    # step 1       100      105      105     together: nobody is last
    # step 2       220      200      200     rank 0 is 20 late, two wait
    # step 2       300               350     rank 2 is 50 late, one waits
    # shared by all who are missing: rank 1 5 + 2.5, rank 2 5 + 60 + 2.5 + 50, rank 0 40
    build.ranks(3, residual_ns=residual_ns)
    build.collective({0: (0, 60), 1: (10, 60), 2: (40, 60)}, step=1)
    build.collective({0: (100, 160), 1: (105, 160), 2: (105, 160)}, step=1)
    build.collective({0: (220, 260), 1: (200, 260), 2: (200, 260)}, step=2)
    build.collective({0: (300, 400), 2: (350, 400)}, step=2)


def test_a_rank_is_charged_with_the_time_that_the_others_waited_for_it_alone(
    build: Builder,
) -> None:
    _three_ranks(build)
    assert rows(build.con, "stragglers", queued_ns=0) == [
        dict(zip(NAMES, row, strict=True))
        for row in (
            # ranks 2 and 0 idled longer than the others, and no launch is recorded to say why
            (
                2,
                None,
                4,
                2,
                110,
                "unknown_idle",
                False,
                110,
                50,
                0.5,
                None,
                None,
                1.0,
                2,
                0.5,
                2,
                1.0,
                None,
                None,
                None,
                3,
                2,
                20,
                20,
                185,
                117,
                0,
                None,
                # the worst of three in both steps, by 60 and by 10: any of the three ranks might
                # have been, with (1/3)^2 each, and no two amounts are less even
                pytest.approx(3 / 9),
            ),
            (
                0, None, 4, 1, 40, "unknown_idle", False, 40, 20, 0.25, None, None, 1.0, 1, 0.25, 0,
                0.0, None, None, None, 3, 1, 95, 95, 260, 40, 0, None, 1.0,
            ),
            (
                1, None, 3, 0, 0, None, False, 0, None, 0.0, NEVER, None, None, 0, 0.0, 0, 0.0,
                None, None, None, 2, 0, 50, 50, 165, 8, 0, None, 1.0,
            ),
        )
    ]  # fmt: skip


def _origins(build: Builder, **params: object) -> dict[tuple[int, int | None], tuple[object, ...]]:
    """By rank and step: origin_wait_ns, passed_on_ns, origin_rank."""
    names = ("origin_wait_ns", "passed_on_ns", "origin_rank")
    got = rows(build.con, "stragglers", **params)
    assert sum(row["origin_wait_ns"] for row in got) == sum(row["waited_ns"] for row in got)
    return {(row["rank"], row["step"]): tuple(row[name] for name in names) for row in got}


def _mesh(build: Builder, work: dict[int, int], step: int = 1, at: int = 0) -> int:
    """A step of 4 ranks that compute (us) in the groups (0, 1) and (2, 3), and then 10 us more
    before those that cross them, (0, 2) and (1, 3); returns its end."""
    us = 1000

    def meet(groups: list[tuple[int, int]], begun: dict[int, int], first: int) -> dict[int, int]:
        done: dict[int, int] = {}
        for number, ranks in enumerate(groups, first):
            end = max(begun[rank] for rank in ranks) + 5
            build.collective(
                {rank: (at + begun[rank] * us, at + end * us) for rank in ranks},
                group_id=number,
                step=step,
            )
            done |= dict.fromkeys(ranks, end)
        return done

    for rank, length in work.items():
        build.gpu(rank, (at, at + length * us), step=step)
    first = meet([(0, 1), (2, 3)], work, 0)
    for rank, begin in first.items():
        build.gpu(rank, (at + begin * us, at + (begin + 10) * us), step=step)
    last = meet([(0, 2), (1, 3)], {rank: end + 10 for rank, end in first.items()}, 2)
    assert len(set(last.values())) == 1
    return at + last[0] * us


@nightly
def test_a_chain_is_followed_through_groups_to_where_it_begins(build: Builder) -> None:
    build.ranks(4)
    # rank 0 computes 30 longer; rank 1 waits 30 for it, and so 3 waits 30 for 1, as 2 does for 0
    end = _mesh(build, {0: 50, 1: 20, 2: 20, 3: 20})
    assert _origins(build) == {
        (0, None): (90_000, 0, None), (1, None): (0, 30_000, 0), (2, None): (0, 0, None),
        (3, None): (0, 0, None),
    }  # fmt: skip
    # in the next step 3 computes 40 longer: 2 waits for it, 0 and 1 for 2 and 3, and no more for 0
    _mesh(build, {0: 20, 1: 20, 2: 20, 3: 60}, step=2, at=end)
    found = _origins(build, per="step")
    assert found[0, 1], found[1, 1] == ((90_000, 0, None), (0, 30_000, 0))
    assert found[3, 2], found[2, 2] == ((120_000, 0, None), (0, 40_000, 3))
    assert [row["rank"] for row in rows(build.con, "stragglers")][:2] == [3, 0]


def test_a_rank_that_is_held_up_and_slow_answers_for_its_own_part(build: Builder) -> None:
    build.ranks(3)
    # rank 1 waits 30 us for rank 0, then computes 40 where rank 2 computes 20: of the 50 that
    # rank 2 waits for it, 30 are rank 0's
    build.collective({0: (50_000, 55_000), 1: (20_000, 55_000)}, group_id=0)
    build.gpu(0, (0, 50_000))
    build.gpu(1, (0, 20_000))
    build.gpu(1, (55_000, 95_000))
    build.gpu(2, (0, 45_000))
    build.collective({1: (95_000, 100_000), 2: (45_000, 100_000)}, group_id=1)
    assert _origins(build) == {
        (0, None): (60_000, 0, None), (1, None): (20_000, 30_000, 0), (2, None): (0, 0, None),
    }  # fmt: skip


@nightly
def test_who_computes_on_while_waiting_is_not_held_up(build: Builder) -> None:
    build.ranks(3)
    # as before, but rank 1 computes beside its collective with rank 0, and is slow by itself
    build.collective({0: (50_000, 55_000), 1: (20_000, 55_000)}, group_id=0)
    build.gpu(0, (0, 50_000))
    build.gpu(1, (0, 95_000))
    build.gpu(2, (0, 45_000))
    build.collective({1: (95_000, 100_000), 2: (45_000, 100_000)}, group_id=1)
    assert _origins(build) == {
        (0, None): (30_000, 0, None), (1, None): (50_000, 0, None), (2, None): (0, 0, None),
    }  # fmt: skip


@nightly
def test_steps_can_be_told_apart(build: Builder) -> None:
    _three_ranks(build)
    columns = "rank step instances times_last caused_wait_ns"
    assert told(build.con, "stragglers", columns, per="step", queued_ns=0) == [
        (2, 1, 2, 1, 60), (2, 2, 2, 1, 50), (0, 2, 2, 1, 40), (1, 1, 2, 0, 0), (0, 1, 2, 0, 0),
        (1, 2, 1, 0, 0),
    ]  # fmt: skip


@nightly
def test_persistence_is_told_by_step_by_host_and_by_stage(build: Builder) -> None:
    # last, and by how much:  step 1: rank 2, 30   step 2: rank 1, 10   step 3: rank 2, 20
    for rank in (0, 1, 2, 3):
        build.rank(rank)
        build.con.execute(
            "UPDATE base.rank_sources SET host = ? WHERE rank = ?",
            ["left" if rank < 2 else "right", rank],
        )
    build.group(5, [0, 2, 3])
    build.con.execute("UPDATE groups SET role = 'pp'")
    for step, last, late in ((1, 2, 30), (2, 1, 10), (3, 2, 20)):
        start = 1000 * step
        build.collective(
            {rank: (start + late * (rank == last), start + 100) for rank in (0, 1, 2, 3)}, step=step
        )
    names = ("rank", "worst_steps", "worst_share", "host", "host_share", "stage", "shortest_share")
    got = {row["rank"]: tuple(row[n] for n in names[1:]) for row in rows(build.con, "stragglers")}
    assert got == {
        0: (0, 0.0, "left", 30 / 180, "first", 0.0),
        1: (1, 1 / 3, "left", 30 / 180, None, 1 / 3),
        2: (2, 2 / 3, "right", 150 / 180, "middle", 2 / 3),
        3: (0, 0.0, "right", 150 / 180, "last", 0.0),
    }


def test_delays_that_the_clocks_cannot_tell_are_below_resolution(build: Builder) -> None:
    _three_ranks(build, residual_ns=31)
    assert told(build.con, "stragglers", "rank resolved_wait_ns below_resolution cause note") == [
        (2, 50, True, None, TOO_SMALL),
        (1, 0, False, None, NEVER),
        (0, 0, True, None, TOO_SMALL),
    ]


def test_without_anchors_nothing_is_resolved(build: Builder) -> None:
    _three_ranks(build, residual_ns=None)
    assert told(build.con, "stragglers", "resolved_wait_ns below_resolution") == [
        (0, True),
        (0, True),
        (0, False),
    ]


def test_a_rank_alone_and_unmatched_operations_make_nobody_wait(build: Builder) -> None:
    build.rank(0)
    build.collective({0: (0, 10)})
    build.collective({0: (20, 30)}, matched=False)
    assert rows(build.con, "stragglers") == []


def _late(build: Builder, *, at: int = 0, late: int = 100_000) -> None:
    # rank 0 arrives at the second collective `late` after rank 1
    build.ranks(2)
    build.collective({0: (at, at + 50_000), 1: (at, at + 50_000)})
    start, end = at + 150_000, at + 200_000 + late
    build.collective({0: (start + late, end), 1: (start, end)})


def _cause(build: Builder) -> tuple[object, ...]:
    first = rows(build.con, "stragglers")[0]
    return first["rank"], first["cause"], first["cause_detail"], first["cause_share"], first["note"]


def test_longer_compute_is_a_cause_with_the_class_of_its_kernels(build: Builder) -> None:
    _late(build)
    build.gpu(0, (50_000, 250_000))
    build.gpu(1, (50_000, 150_000))
    assert _cause(build) == (0, "compute", "other", 1.0, None)


@nightly
def test_longer_copies_are_a_cause_as_far_as_nothing_else_runs(build: Builder) -> None:
    _late(build)
    build.gpu(0, (50_000, 130_000))
    build.gpu(0, (110_000, 250_000), category="memory")
    build.gpu(1, (50_000, 150_000))
    # compute 80 us against 100, copies 120 us against 0
    assert _cause(build) == (0, "copies", None, 1.0, None)


@nightly
@cases
def test_longer_idling_is_named_after_the_gap(
    build: Builder, host: tuple[str, str] | None, want: tuple[object, ...]
) -> None:
    _late(build)
    for rank, start in ((0, 230_000), (1, 130_000)):
        build.gpu(rank, (0, 20_000))
        call = build.launch(rank, (start - 1000, start))
        build.gpu(rank, (start, start + 20_000), launch=call)
        if host is not None:
            build.host(rank, (40_000, start - 2000), host[0], kind=host[1])
    assert _cause(build) == want


@nightly
@pytest.mark.parametrize(
    ("called", "held", "want"),
    [
        # the kernel waited 99 us behind the compute: an earlier call would not have helped
        (150_000, None, ("compute", "other")),
        # it began as it was called: so it waited for the call, and computing went on meanwhile
        (249_000, None, ("host_bound", "launch_bound")),
        # the host called it when the compute was done, since it had waited for that
        (249_000, (55_000, 248_000), ("compute", "other")),
        (249_000, (55_000, 75_000), ("host_bound", "launch_bound")),
    ],
    ids=["queued", "called late", "waited for the GPU", "waited for the GPU for a while"],
)
def test_compute_holds_up_what_was_launched_and_not_who_launches_late(
    build: Builder, called: int, held: Interval | None, want: tuple[str, str]
) -> None:
    for rank in (0, 1):
        build.rank(rank)
        build.gpu(rank, (50_000, 150_000 + 100_000 * (rank == 0)))
    if held:
        build.host(0, held, "cudaDeviceSynchronize", kind="runtime")
    build.collective({0: (0, 50_000), 1: (0, 50_000)})
    at = {0: (250_000, 300_000), 1: (150_000, 300_000)}
    launches = {0: called, 1: 100_000}
    ops = {
        rank: build.gpu(
            rank,
            at[rank],
            category="communication",
            launch=build.launch(rank, (launches[rank], launches[rank] + 1_000)),
        )
        for rank in at
    }
    build.collective(at, each={rank: {"gpu_op_id": op_id} for rank, op_id in ops.items()})
    assert _cause(build)[:3] == (0, *want)


@nightly
def test_a_real_rank_that_launches_late_is_not_blamed_for_its_compute(recorded: Recorded) -> None:
    # rank 2 launches six collectives 15 to 19 ms after the others; each begins within 0.9 ms then
    run = recorded("kineto/torchrec_4")
    worst = run.stragglers().iloc[0]
    launch = run.what_if("rank=2 kind=launch like=median")
    compute = run.what_if("rank=2 kind=compute like=median")
    assert worst["rank"] == 2
    assert (worst["cause"], worst["cause_detail"]) == ("host_bound", "launch_bound")
    assert launch["gain_ns"][0] > 10_000_000 > 100 * compute["gain_ns"][0]


# what was wrong: "Rank 1 computes longer ... last in 248 of 264", where each sum ended later on it
@pytest.mark.parametrize(
    ("resolution", "cause"),
    [(0, ("late_end", None, 0.9)), (950_000, ("compute", "other", 1.0))],
)
def test_who_comes_last_as_the_collective_before_ended_later_is_not_slow(
    build: Builder, resolution: int, cause: tuple[object, ...]
) -> None:
    """Rank 0 computes 300 us in place of 200, and is 1 ms late: its sum had ended 0.9 ms later."""
    build.ranks(2, residual_ns=resolution)
    build.collective({0: (0, 1_900_000), 1: (0, 1_000_000)})
    build.gpu(0, (1_900_000, 2_200_000))
    build.gpu(1, (1_000_000, 1_200_000))
    build.collective({0: (2_200_000, 3_000_000), 1: (1_200_000, 3_000_000)})
    assert _cause(build) == (0, *cause, None)


def test_waiting_in_another_group_is_a_cause_with_the_rank_waited_for(build: Builder) -> None:
    _late(build)
    build.rank(2)
    build.collective({0: (60_000, 245_000), 2: (240_000, 245_000)}, group_id=5)
    build.gpu(0, (60_000, 245_000), category="communication")
    got = {row["rank"]: row for row in rows(build.con, "stragglers")}
    assert (got[0]["cause"], got[0]["cause_detail"]) == (
        "other_group",
        "group 5, waiting for rank 2",
    )
    # nothing of its past is recorded
    assert (got[2]["cause"], got[2]["note"]) == (None, NOTHING_BEFORE)


@nightly
def test_waiting_in_its_own_group_is_no_cause(build: Builder) -> None:
    # rank 0 waits 130 us for rank 1, and is 10 us late for the next collective, which rank 1 had
    # queued: since the first, rank 0 had 130 us more of communication, 130 less of compute, and
    # idled 10 us longer
    build.ranks(2)
    build.collective({0: (0, 10_000), 1: (0, 10_000)})
    build.collective({0: (50_000, 200_000), 1: (180_000, 200_000)})
    build.collective({0: (215_000, 230_000), 1: (205_000, 230_000)})
    build.gpu(0, (10_000, 50_000))
    build.gpu(0, (50_000, 200_000), category="communication")
    build.gpu(1, (10_000, 180_000))
    build.gpu(1, (180_000, 200_000), category="communication")
    got = {row["rank"]: row for row in rows(build.con, "stragglers")}
    assert (got[1]["cause"], got[1]["times_last"], got[1]["caused_wait_ns"]) == (
        "compute", 1, 130_000,
    )  # fmt: skip
    assert (got[0]["cause"], got[0]["cause_share"], got[0]["caused_wait_ns"]) == (
        "unknown_idle", 1.0, 10_000,
    )  # fmt: skip


def _late_in_steps(build: Builder, late_ns: Sequence[int]) -> dict[int, float]:
    """Return the chance of two ranks: rank 1 comes so much later in each step, rank 0 if less."""
    build.ranks(2)
    for step, late in enumerate(late_ns):
        at = step * 1_000_000
        build.collective(
            {0: (at - min(late, 0), at + 200_000), 1: (at + max(late, 0), at + 200_000)}, step=step
        )
    return {row["rank"]: row["chance"] for row in rows(build.con, "stragglers")}


@nightly
@pytest.mark.parametrize("steps", [3, 2, 8])
def test_the_more_often_the_same_rank_is_last_the_less_it_is_chance(
    build: Builder, steps: int
) -> None:
    # by the same time, 10 us: it may be the shortest that can be told. Heads each time, or tails
    assert _late_in_steps(build, [10_000] * steps) == {0: 1, 1: pytest.approx(2 / 2**steps)}


@nightly
def test_long_lateness_is_less_by_chance_than_short(build: Builder) -> None:
    # both are last as often. The places of rank 1, which is later, are the upper ones
    late = [-10_000, -20_000, -30_000, -40_000, 100_000, 110_000, 120_000, 130_000]
    drawn = [sum(each) for each in product(*((0, place) for place in range(1, 9)))]
    as_late = sum(places >= 5 + 6 + 7 + 8 for places in drawn)
    assert _late_in_steps(build, late) == {0: 1, 1: pytest.approx(2 * as_late / 2**8)}


@nightly
def test_collectives_of_one_step_count_once_until_the_ranks_are_even(build: Builder) -> None:
    # rank 1 is 10 us late to three collectives, each of which begins 100 us after the one before
    build.ranks(2)
    for at in (0, 200_000, 400_000):
        build.collective({0: (at, at + 100_000), 1: (at + 10_000, at + 100_000)})
    assert {row["rank"]: row["chance"] for row in rows(build.con, "stragglers")} == {0: 1, 1: 0.25}
    # queued behind the third: whoever was late there still is
    for at in (500_000, 600_000):
        build.collective({0: (at, at + 100_000), 1: (at + 10_000, at + 100_000)})
    assert {row["rank"]: row["chance"] for row in rows(build.con, "stragglers")} == {0: 1, 1: 0.25}


@nightly
def test_who_was_recorded_later_takes_part_in_the_stretch_that_others_had_begun(
    build: Builder,
) -> None:
    build.ranks(3)
    build.collective({0: (0, 100_000), 1: (10_000, 100_000)})
    # queued behind it: of one stretch with it, of the rank that was not there as well
    build.collective({0: (100_000, 200_000), 1: (100_000, 200_000), 2: (110_000, 200_000)})
    build.collective({0: (300_000, 400_000), 1: (300_000, 400_000), 2: (310_000, 400_000)})
    chances = {row["rank"]: row["chance"] for row in rows(build.con, "stragglers")}
    assert chances == {0: 1, 1: 1, 2: pytest.approx(3 / 9)}


@first_at_once(2)
@cases
def test_who_was_late_by_chance_alone_is_told_from_who_is_slow(
    recorded: Recorded, case: str, rank: int, is_chance: bool
) -> None:
    late = recorded(case).stragglers().set_index("rank").loc[rank]
    assert late["known_last"] > 0
    assert (late["chance"] > 0.05) == is_chance


def test_an_overlapped_collective_does_not_hide_what_came_before_it(build: Builder) -> None:
    # rank 0 loads data for 100 us; rank 1 computes on while its collective waits for rank 0,
    # so rank 0 is as late for the next one, though it only computed since
    _late(build)
    build.collective({0: (350_000, 360_000), 1: (305_000, 360_000)})
    build.gpu(0, (0, 50_000))
    build.host(0, (40_000, 148_000), "DataLoader.next", kind="annotation")
    build.gpu(0, (150_000, 350_000), launch=build.launch(0, (149_000, 150_000)))
    build.gpu(1, (50_000, 305_000))
    first = rows(build.con, "stragglers")[0]
    assert (first["rank"], first["times_last"], first["cause"]) == (0, 2, "data_loading")


@nightly
@pytest.mark.parametrize(
    ("config", "rank", "cause", "detail"),
    [
        (simulated_runs.SLOW_GPU, 2, "compute", "gemm"),
        (simulated_runs.SLOW_HOST, 3, "host_bound", "launch_bound"),
        (simulated_runs.SLOW_DATA, 1, "data_loading", None),
        (simulated_runs.SYNC, 0, "host_bound", "sync"),
        (simulated_runs.SLOW_GPU_TP, 2, "compute", "gemm"),
    ],
    ids=["compute", "launch", "data", "sync", "tensor parallel"],
)
def test_what_was_simulated_is_found(
    simulated: Simulated, config: Config, rank: int, cause: str, detail: str | None
) -> None:
    got = simulated(config).stragglers()
    worst = got.iloc[0]
    assert (worst["rank"], worst["cause"]) == (rank, cause)
    assert worst["cause_detail"] == detail or detail is None
    assert worst["cause_share"] > 0.8
    assert worst["times_shortest"] > 0
    if config.parallelism == "tp":
        # its neighbour was late for the gradients because it had waited for it
        assert got["cause"][1] == "other_group"
        assert str(got["cause_detail"][1]).endswith(f"waiting for rank {rank}")
        relay = got.set_index("rank").loc[rank ^ 1]
        assert relay["origin_rank"] == rank
        assert relay["passed_on_ns"] > 0.9 * relay["caused_wait_ns"]
        assert got["origin_wait_ns"][0] > 0.9 * got["waited_ns"].sum()


def test_waiting_in_calls_at_once_counts_once(build: Builder) -> None:
    # rank 0 waits from 0 to 60 for rank 1, from 10 to 90 for rank 2: the first 60 in the one call,
    # 30 more in the other. Rank 1 of the first call is waited for alone, as rank 2 of the second
    build.ranks(3)
    build.collective({0: (0, 70), 1: (60, 70)}, group_id=0, step=1)
    build.collective({0: (10, 100), 2: (90, 100)}, group_id=1, step=1)
    columns = "rank waited_ns waited_free_ns inside_ns caused_wait_ns origin_wait_ns"
    assert told(build.con, "stragglers", columns) == [
        (1, 0, 0, 10, 60, 60),
        (2, 0, 0, 10, 30, 30),
        (0, 90, 90, 100, 0, 0),
    ]


def test_who_is_missing_shares_what_no_earlier_call_counts(build: Builder) -> None:
    # rank 0 waits for rank 3 until 30 in the first call; in the second, which it had called by 10,
    # for ranks 1 and 2 until 50, for rank 2 until 80. Rank 1 waits the last 30 of that too
    build.ranks(4)
    build.collective({0: (0, 35), 3: (30, 35)}, group_id=0)
    build.collective({0: (10, 90), 1: (50, 90), 2: (80, 90)}, group_id=1)
    assert told(build.con, "stragglers", "rank waited_ns caused_wait_ns origin_wait_ns") == [
        (2, 0, 60, 70),
        (3, 0, 30, 30),
        (1, 30, 0, 10),
        (0, 80, 0, 0),
    ]


def test_what_the_recording_leaves_out_is_no_waiting(build: Builder) -> None:
    build.ranks(3)
    for step in (1, 2, 3):
        at = 1000 * step
        build.collective({r: (at + 40 * r, at + 100) for r in (0, 1, 2)}, step=step)
    columns = "rank step instances times_last waited_ns origin_wait_ns"
    assert told(build.con, "stragglers", columns) == [
        (2, None, 3, 3, 0, 300),
        (1, None, 3, 0, 120, 60),
        (0, None, 3, 0, 240, 0),
    ]
    leave_out = "INSERT INTO recording VALUES (?, 0, 'lost records', ?, 1, 2, true, '', '')"
    # of who waits, only its own waiting; of who came last, the waiting of all
    build.con.execute(leave_out, [0, [1]])
    build.con.execute(leave_out, [2, [3]])
    assert told(build.con, "stragglers", columns, per="step") == [
        (2, 2, 1, 1, 0, 100), (2, 1, 1, 1, 0, 40), (1, 2, 1, 0, 40, 20), (0, 2, 1, 0, 80, 0),
        (0, 3, 1, 0, 0, 0), (1, 1, 1, 0, 40, 0), (1, 3, 1, 0, 0, 0),
    ]  # fmt: skip
    # without steps it is the whole rank
    build.con.execute(leave_out, [2, []])
    columns = "rank instances waited_ns below_resolution note"
    assert told(build.con, "stragglers", columns) == [
        (0, 2, 0, False, "it was never last"),
        (1, 3, 0, False, "it was never last"),
        (2, 0, 0, False, "the verdict on the recording leaves out all of it"),
    ]


@first_at_once()
@pytest.mark.parametrize(
    "name",
    ["ddp_gloo_straggler", "busy_cores_gloo", "captured_gloo", "messages_mesh_gloo",
     "two_interfaces_gloo", "uneven_work_gloo", "uneven_start_gloo", "kineto/megatron_tp8"],
)  # fmt: skip
def test_no_rank_waits_longer_than_its_steps_last(recorded: Recorded, name: str) -> None:
    run = recorded(name)
    ranks = run.stragglers(per="step").dropna(subset="step")
    steps = run.sql(
        "SELECT rank, step, greatest(duration_ns, device_end_local_ns - device_start_local_ns)"
        " AS length_ns FROM steps"
    )
    both = ranks.merge(steps, on=["rank", "step"], how="left")
    assert (both["waited_ns"] <= both["length_ns"]).all()
    assert both["waited_ns"].sum() == both["origin_wait_ns"].sum()


def test_waiting_for_a_sleeping_rank_is_that_of_its_files(recorded: Recorded) -> None:
    # from the files and the clocks' offsets: of the k-th gloo call of each rank that begins more
    # than the resolution apart, moment by moment, who waits in the first of its calls, and who is
    # missing there
    ranks = recorded("ddp_gloo_straggler").stragglers().set_index("rank").sort_index()
    assert [round(ns / 1e6, 1) for ns in ranks["waited_ns"]] == [193.3, 191.6, 0.0, 197.3]
    assert [round(ns / 1e6, 1) for ns in ranks["origin_wait_ns"]] == [12.1, 8.3, 555.3, 6.6]


def test_a_rank_that_began_to_record_late_is_not_waited_for(recorded: Recorded) -> None:
    # rank 0 waits 275 ms in step 3, which the recording's verdict leaves out
    ranks = recorded("uneven_start_gloo").stragglers()
    assert ranks["waited_ns"].tolist() == ranks["origin_wait_ns"].tolist() == [0, 0]


@nightly
def test_rank_0_of_a_real_tensor_parallel_run_is_host_bound(recorded: Recorded) -> None:
    ranks = recorded("kineto/megatron_tp8").stragglers()
    worst = ranks.iloc[0]
    assert (worst["rank"], worst["times_last"]) == (0, ranks["times_last"].max())
    assert (worst["cause"], worst["cause_detail"]) == ("host_bound", "launch_bound")
