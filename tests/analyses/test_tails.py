import pytest

from tests.analyses.builders import Builder, rows, told
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly

TAIL = (
    *("tail_instances", "tail_ns", "tail_is", "tail_is_share", "tail_rank", "tail_rank_cause"),
    *("tail_steps", "tail_recurs"),
)
US = 1000


def test_durations_waits_and_transfers_of_two_instances_on_two_ranks(build: Builder) -> None:
    # instance 1   rank 0: 0........100      rank 1:    40...110   waits 40, 0   transfer 70
    # instance 2   rank 0:   220....300      rank 1: 200.....305   waits 0, 20   transfer 85
    # durations: 70 80 100 105    waits: 0 0 20 40    transfers: 70 85
    # shortest durations: 70 and 80, so the waits without a clock: 30 0, 0 25
    build.rank(0)
    build.rank(1)
    build.group(0, [0, 1])
    build.collective({0: (0, 100), 1: (40, 110)}, bytes_=1024, step=1)
    build.collective({0: (220, 300), 1: (200, 305)}, bytes_=2047, step=2)
    assert rows(build.con, "tails") == [
        {
            "op": "all_reduce", "group_id": 0, "bytes_from": 1024, "bytes_to": 2048, "instances": 2,
            "duration_p50_ns": 80, "duration_p95_ns": 105, "duration_p99_ns": 105,
            "duration_max_ns": 105, "wait_p50_ns": 0, "wait_p95_ns": 40, "wait_p99_ns": 40,
            "wait_max_ns": 40, "transfer_p50_ns": 70, "transfer_p95_ns": 85, "transfer_p99_ns": 85,
            "transfer_max_ns": 85, "tail_ratio": 105 / 80, "last_rank": 0, "last_rank_share": 0.5,
            "transfer_min_p50_ns": 70, "wait_free_p99_ns": 30, "below_resolution_share": 0.0,
            "calls": 4, "unmatched_calls": 0, "ranks_seen": 2, "slowest_rank": 1, "slowest_step": 2,
            "algorithm": None, "protocol": None, "tail_instances": None, "tail_ns": None,
            "tail_is": None, "tail_is_share": None, "tail_rank": None, "tail_rank_cause": None,
            "tail_steps": None, "tail_recurs": None, "note": None, "link": None,
        }
    ]  # fmt: skip


def test_an_operation_without_partners_has_durations_only(build: Builder) -> None:
    build.rank(0)
    build.collective({0: (0, 30)}, group_id=None, bytes_=None, matched=False)
    build.collective({0: (50, 70)}, group_id=None, bytes_=None, matched=False)
    [row] = rows(build.con, "tails")
    assert {name for name, value in row.items() if value is None} == {
        "group_id", "bytes_from", "bytes_to", "wait_p50_ns", "wait_p95_ns", "wait_p99_ns",
        "wait_max_ns", "transfer_p50_ns", "transfer_p95_ns", "transfer_p99_ns", "transfer_max_ns",
        "last_rank", "last_rank_share", "transfer_min_p50_ns", "wait_free_p99_ns", *TAIL,
        "below_resolution_share", "slowest_step", "algorithm", "protocol", "note", "link",
    }  # fmt: skip
    assert (row["duration_p50_ns"], row["duration_max_ns"]) == (20, 30)
    assert (row["instances"], row["calls"], row["unmatched_calls"]) == (0, 2, 2)


def test_a_rank_alone_waits_for_nobody(build: Builder) -> None:
    build.rank(0)
    build.group(0, [0, 1])
    build.collective({0: (0, 30)})
    columns = "instances wait_max_ns transfer_max_ns last_rank"
    assert told(build.con, "tails", columns) == [(1, None, None, None)]


@first_at_once(2)
@pytest.mark.parametrize(
    ("size", "bucket"),
    [
        (0, (0, 1)), (1, (1, 2)), (2, (2, 4)), (3, (2, 4)), (2**40, (2**40, 2**41)),
        (None, (None,) * 2),
    ],
)  # fmt: skip
def test_sizes_fall_in_buckets_of_powers_of_two(
    build: Builder, size: int | None, bucket: tuple[int | None, int | None]
) -> None:
    build.rank(0)
    build.collective({0: (0, 30)}, bytes_=size)
    [row] = rows(build.con, "tails")
    assert (row["bytes_from"], row["bytes_to"]) == bucket


def test_operations_groups_and_sizes_are_kept_apart_and_in_order(build: Builder) -> None:
    build.rank(0)
    build.collective({0: (0, 1)}, op="broadcast", group_id=1, bytes_=8)
    build.collective({0: (0, 2)}, op="all_gather", group_id=None, bytes_=8, matched=False)
    build.collective({0: (0, 3)}, op="all_gather", group_id=2, bytes_=None)
    build.collective({0: (0, 4)}, op="all_gather", group_id=2, bytes_=64)
    build.collective({0: (0, 5)}, op="all_gather", group_id=2, bytes_=8)
    assert told(build.con, "tails", "op group_id bytes_from duration_max_ns") == [
        ("all_gather", 2, 8, 5),
        ("all_gather", 2, 64, 4),
        ("all_gather", 2, None, 3),
        ("all_gather", None, 8, 2),
        ("broadcast", 1, 8, 1),
    ]


@nightly
def test_percentiles_are_nearest_ranks(build: Builder) -> None:
    # durations 1..100: p50 is the 50th, p95 the 95th, p99 the 99th
    build.rank(0)
    for duration in range(1, 101):
        build.collective({0: (0, duration)})
    [row] = rows(build.con, "tails")
    assert [row[f"duration_{name}_ns"] for name in ("p50", "p95", "p99", "max")] == [
        50, 95, 99, 100,
    ]  # fmt: skip
    assert row["tail_ratio"] == 99 / 50


@nightly
def test_a_skew_that_the_clocks_cannot_tell_is_counted_as_such(build: Builder) -> None:
    build.rank(0, residual_ns=10)
    build.rank(1, residual_ns=50)
    build.collective({0: (0, 100), 1: (49, 100)})
    build.collective({0: (200, 300), 1: (250, 300)})
    [row] = rows(build.con, "tails")
    assert (row["below_resolution_share"], row["last_rank"], row["last_rank_share"]) == (0.5, 1, 1)


@nightly
def test_who_came_last_is_said_where_it_was_later_than_the_last_but_one(build: Builder) -> None:
    build.ranks(3, residual_ns=50)
    # rank 0 waits 60 ns for the others: that much the clocks can tell, but not who of them was last
    build.collective({0: (0, 200), 1: (11, 200), 2: (60, 200)})
    columns = "below_resolution_share last_rank last_rank_share"
    assert told(build.con, "tails", columns) == [(0, None, None)]
    # rank 1 by 50 ns, rank 2 twice by more; once two come together
    build.collective({0: (1000, 1200), 1: (1060, 1200), 2: (1010, 1200)})
    build.collective({0: (2000, 2200), 1: (2010, 2200), 2: (2070, 2200)})
    build.collective({0: (3000, 3200), 1: (3010, 3200), 2: (3070, 3200)})
    build.collective({0: (4000, 4200), 1: (4060, 4200), 2: (4060, 4200)})
    assert told(build.con, "tails", "instances last_rank last_rank_share") == [(5, 2, 2 / 3)]


@nightly
def test_without_residuals_nobody_came_last(build: Builder) -> None:
    build.rank(0)
    build.rank(1, residual_ns=None)
    build.collective({0: (0, 900), 1: (800, 900)})
    assert told(build.con, "tails", "below_resolution_share last_rank") == [(1, None)]


@nightly
def test_waiting_for_ranks_that_are_missing_counts_as_transfer_and_the_note_says_so(
    build: Builder,
) -> None:
    build.rank(0)
    build.rank(1)
    build.group(0, [0, 1, 2, 3])
    build.group(1, [0, 1])
    build.collective({0: (0, 100), 1: (40, 110)})
    build.collective({0: (0, 100), 1: (40, 110)}, group_id=1)
    build.collective({0: (200, 300)})
    build.collective({0: (400, 500)}, op="broadcast")
    assert told(build.con, "tails", "op group_id transfer_max_ns note") == [
        ("all_reduce", 0, 70, "2 of 4 ranks not seen: waiting for them counts as transfer"),
        ("all_reduce", 1, 70, None),
        ("broadcast", 0, None, None),
    ]


def _kind(build: Builder, lengths: list[int], late: dict[int, int] | None = None) -> None:
    """One all-reduce of ranks 0 and 1 a step, from 1,000 us times the step on, of these lengths;
    in some steps rank 1 comes so much later. Times in us."""
    build.world(2)
    for step, length in enumerate(lengths, 1):
        at = 1000 * step
        for rank in (0, 1):
            window = (at * US, (at + 1000) * US)
            build.step(rank, step, window, window)
        start = at + (late or {}).get(step, 0)
        build.collective(
            {0: (at * US, (at + length) * US), 1: (start * US, (at + length) * US)}, step=step
        )


def _tail(build: Builder) -> tuple[object, ...]:
    [row] = [row for row in rows(build.con, "tails") if row["op"] == "all_reduce"]
    return tuple(row[key] for key in TAIL if key != "tail_rank_cause")


def test_a_tail_that_is_waiting_names_the_late_rank(build: Builder) -> None:
    _kind(build, [100, 100, 400, 100, 400, 100], {3: 300, 5: 200})
    # 300 us over the median each, of which rank 0 waits 300 and 200
    share = pytest.approx(500 / 600)
    assert _tail(build) == (2, 600 * US, "late arrival", share, 1, [3, 5], True)


@first_at_once()
@pytest.mark.parametrize(
    ("other", "told"), [("gather", "other collectives"), ("copy", "copies"), (None, "transfer")]
)
def test_a_tail_that_is_transfer_names_what_runs_beside_it(
    build: Builder, other: str | None, told: str
) -> None:
    _kind(build, [100, 100, 400, 100, 100])
    beside = (3050 * US, 3390 * US)
    if other == "gather":
        build.group(1, [0, 1])
        build.collective({0: beside, 1: beside}, "all_gather", group_id=1, step=3)
    if other == "copy":
        for rank in (0, 1):
            build.gpu(rank, beside, "memory", "Memcpy HtoD", 21, step=3)
    assert _tail(build) == (1, 300 * US, told, 1, None, [3], False)


@nightly
def test_what_the_rest_of_its_kind_runs_beside_too_is_no_reason(build: Builder) -> None:
    _kind(build, [100, 100, 400, 100, 100])
    for rank in (0, 1):
        build.gpu(rank, (1000 * US, 6000 * US), "memory", "Memcpy HtoD", 21)
    assert _tail(build)[2] == "transfer"


@pytest.mark.parametrize(
    ("name", "rank", "cause"),
    # INDEX: rank 3 computes longer; rank 2 is 1,010 ms per step in a range of its host
    [("cases/moe", 3, "compute"), ("kineto/torchrec_a2a", 2, "host_bound")],
)
@nightly
def test_known_late_ranks_are_behind_the_tails(
    recorded: Recorded, name: str, rank: int, cause: str
) -> None:
    found = recorded(name).tails()
    row = found[found["op"] == "all_to_all"].iloc[0]
    assert (row["tail_is"], row["tail_rank"], row["tail_rank_cause"]) == (
        *("late arrival", rank, cause),
    )
    assert row["tail_recurs"]
    assert row["tail_is_share"] > 0.99
