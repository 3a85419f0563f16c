"""Which group gloo's worker threads serve: as the job's flight recorder says, or nothing."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.collective_calls import BASE, add_call, add_rank
from tests.marks import at_once, nightly
from traceweave import ingest
from traceweave.store.database import open_database
from traceweave.weave import weave

RECORDED = (
    "pairs_gloo", "odd_groups_gloo", "two_groups_gloo", "tp2_dp2_gloo", "slow_rank_2x2_gloo",
    "two_interfaces_gloo",
)  # fmt: skip
"""Fixtures of several groups, or of one with four threads, with the flight recorder's dumps of the
same processes beside them; of the first two and the last the host is known, and in the first a
group is listed that nobody uses."""

GROUPS = """
    SELECT k.rank, k.start_local_ns, k.op, k.bytes, g.name, g.ranks
    FROM collectives AS k JOIN groups AS g USING (group_id)
    GROUP BY ALL ORDER BY ALL
"""
INSTANCES = """
    SELECT list((rank, start_local_ns) ORDER BY rank, start_local_ns) AS calls
    FROM collectives GROUP BY collective_id ORDER BY calls
"""


@pytest.mark.parametrize("name", at_once(RECORDED, "tp2_dp2_gloo"))
@nightly
def test_threads_tell_what_the_flight_recorder_says(
    fixtures: Path, database_of: Callable[..., Path], name: str
) -> None:
    dumps = fixtures / "flight_recorder" / name
    with (
        open_database(database_of(fixtures / name)) as told,
        open_database(database_of(fixtures / name, dumps)) as recorded,
    ):
        for query in (GROUPS, INSTANCES):
            found = recorded.execute(query).fetchall()
            assert told.execute(query).fetchall() == found
            assert len(found) >= 12
        assert told.execute("FROM collectives WHERE collective_id IS NULL").fetchall() == []


def test_a_sole_group_has_two_threads_for_each_network_interface(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    with open_database(database_of(fixtures / "two_interfaces_gloo")) as con:
        assert con.execute(
            "SELECT rank, count(DISTINCT stream), count(*), count(collective_id), any_value(ranks)"
            " FROM collectives JOIN groups USING (group_id) GROUP BY rank ORDER BY rank"
        ).fetchall() == [(0, 4, 32, 32, [0, 1]), (1, 4, 32, 32, [0, 1])]


WORLD, NEAR, FAR = (0, 1, 2, 3), {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}, {
    0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)
}  # fmt: skip


def _job(con: Connection, host: str | None = "node0") -> None:
    """Four ranks that list the groups 'world', 'near' and 'far', in this order."""
    for rank in range(4):
        add_rank(con, rank, host=host, world_size=4, last_us=100_000)
        for place, (name, ranks) in enumerate(
            [("world", None), ("near", NEAR[rank]), ("far", FAR[rank])]
        ):
            con.execute(
                "INSERT INTO base.listed_groups VALUES ($1, $1, $2, $3, NULL, $4, 4)",
                [rank, place, name, None if ranks is None else list(ranks)],
            )


def _call(
    con: Connection, rank: int, thread: int, start: float, end: float, op: str = "all_reduce"
) -> None:
    # threads of later ranks have higher numbers, as those of processes do that start one by one
    add_call(
        con, rank, start, end, op=op, group=None, size=4, bytes=1024, stream=100 * rank + thread,
        evidence="host op",
    )  # fmt: skip


def _told(con: Connection) -> list[tuple[int, str | None, list[int] | None, int]]:
    """Thread, group and calls of all ranks' threads, by what is the same in all."""
    weave(con)
    return con.execute(
        "SELECT stream % 100, group_name, list(DISTINCT group_ranks ORDER BY group_ranks)"
        " FILTER (group_ranks IS NOT NULL), count(*)"
        " FROM base.known_calls GROUP BY ALL ORDER BY ALL"
    ).fetchall()


PAIRS_NEAR, PAIRS_FAR = [[0, 1], [2, 3]], [[0, 2], [1, 3]]


def _pairs(con: Connection, apart_us: float, rest_us: int = 0) -> None:
    """Sums in near and far pairs by turns, 20 of each; near ones of ranks 2 and 3 `apart_us` later
    than those of 0 and 1. After every fifth all rest."""
    for n in range(20):
        at = 1_000 * n + rest_us * (n // 5)
        for rank in range(4):
            near = at + apart_us * (rank // 2)
            _call(con, rank, 1 + n % 2, near, near + 50)
            _call(con, rank, 3 + n % 2, at + 600, at + 650)


def test_a_group_that_nobody_uses_is_told_from_those_that_are(empty_run: Connection) -> None:
    _job(empty_run)
    # 300 us later: not one operation of all four, by far more than clocks of one host are apart
    _pairs(empty_run, 300)

    assert _told(empty_run) == [
        (1, "near", PAIRS_NEAR, 40), (2, "near", PAIRS_NEAR, 40),
        (3, "far", PAIRS_FAR, 40), (4, "far", PAIRS_FAR, 40),
    ]  # fmt: skip
    assert _told(empty_run)[0] == (1, "near", PAIRS_NEAR, 40)  # woven again, the same
    assert empty_run.execute(
        "SELECT count(*) FROM base.matches WHERE collective_id IS NULL"
    ).fetchone() == (0,)


def test_what_could_be_read_in_two_ways_stays_open(empty_run: Connection) -> None:
    _job(empty_run)
    # in step: near and far pairs, or all four of them and then near ones
    _pairs(empty_run, 20)
    assert {group for _, group, *_ in _told(empty_run)} == {None}


def test_clocks_that_differ_leave_less_to_causality(empty_run: Connection) -> None:
    _job(empty_run, host=None)
    # always as much later, which clocks that lie apart explain as well
    _pairs(empty_run, 300)
    assert {group for _, group, *_ in _told(empty_run)} == {None}


def test_a_thread_of_no_listed_group_leaves_all_open(empty_run: Connection) -> None:
    _job(empty_run)
    _pairs(empty_run, 300)
    for thread in (5, 6, 7):  # of groups that were given up before the trace was written
        _call(empty_run, 0, thread, 30_000 + thread, 30_100, op="barrier")
    assert {group for _, group, *_ in _told(empty_run)} == {None}


def test_a_rank_whose_recording_ended_early_belongs_to_the_groups_all_the_same(
    empty_run: Connection,
) -> None:
    _job(empty_run)
    _pairs(empty_run, 300)
    # the last two calls are the only ones of all ranks: rank 3 has stopped by then
    for rank in range(3):
        _call(empty_run, rank, 0, 21_000, 21_050, op="barrier")
    found = _told(empty_run)
    assert (0, "world", [[0, 1, 2, 3]], 3) in found
    assert (1, "near", PAIRS_NEAR, 40) in found


def test_groups_of_the_same_members_have_members_and_no_name(empty_run: Connection) -> None:
    for member in range(2):
        add_rank(empty_run, member, host="node0", world_size=2)
        for place, name in enumerate(["world", "checkpoints"]):
            empty_run.execute(
                "INSERT INTO base.listed_groups VALUES ($1, $1, $2, $3, NULL, NULL, 2)",
                [member, place, name],
            )
        for n in range(10):
            _call(empty_run, member, 1 + n % 2, 1_000 * n, 1_000 * n + 50, op="all_gather")

    assert _told(empty_run) == [(1, None, [[0, 1]], 10), (2, None, [[0, 1]], 10)]
    sizes = empty_run.execute("SELECT DISTINCT bytes FROM base.known_calls").fetchall()
    assert sizes == [(512,)]  # of 1,024 with four


def test_calls_that_records_name_are_left_to_them(empty_run: Connection) -> None:
    _job(empty_run)
    _pairs(empty_run, 300)
    empty_run.execute(
        "UPDATE base.collective_calls SET group_name = 'recorded', seq = call_id // 4,"
        " group_ranks = [0, 1, 2, 3]"
    )
    assert {group for _, group, *_ in _told(empty_run)} == {"recorded"}


def test_one_rank_alone_proves_nothing(empty_run: Connection) -> None:
    _job(empty_run)
    _pairs(empty_run, 300)
    for n in range(20):  # as many groups as threads for them, which one reading fits
        _call(empty_run, 0, n % 2, 1_000 * n + 800, 1_000 * n + 850)
    for table in ("base.collective_calls", "base.rank_sources", "base.listed_groups"):
        empty_run.execute(f"DELETE FROM {table} WHERE rank <> 0")
    assert {group for _, group, *_ in _told(empty_run)} == {None}


@pytest.mark.parametrize(("sources", "matched"), [(1, 0), (2, 80)])
def test_more_threads_than_a_group_has_are_of_several_if_of_one_process(
    empty_run: Connection, sources: int, matched: int
) -> None:
    # four threads of a rank: two in either half of its calls, which may have a file of its own
    for rank in range(2):
        for source in range(sources):
            add_rank(
                empty_run, rank, host="node0", world_size=2, source=2 * source + rank,
                last_us=50_000,
            )  # fmt: skip
        for n in range(40):
            half, at = n // 20, 1_000 * n + 37 * (n * n % 11)
            add_call(
                empty_run, rank, at, at + 50, group=None, size=2, bytes=1024 + 8 * (n % 7),
                evidence="host op", stream=10 * rank + 2 * half + n % 2,
                source_id=2 * (half % sources) + rank,
            )  # fmt: skip
    weave(empty_run)
    [(found,)] = empty_run.execute("SELECT count(collective_id) FROM base.matches").fetchall()
    assert found == matched


@pytest.mark.parametrize("groups", [24, 400])
@nightly
def test_many_groups_of_the_same_members_count_as_one(empty_run: Connection, groups: int) -> None:
    # as many readings of 8 pairs of threads as ways to choose 8 of the groups
    for rank in range(2):
        add_rank(empty_run, rank, host="node0", world_size=2)
        empty_run.execute(
            "INSERT INTO base.listed_groups"
            " SELECT $1, $1, place, 'group ' || place, NULL, NULL, 2 FROM range($2) AS of(place)",
            [rank, groups],
        )
        for n in range(8 * 20):
            _call(empty_run, rank, n % 16, 1_000 * n, 1_000 * n + 50)

    assert _told(empty_run) == [(thread, None, [[0, 1]], 20) for thread in range(16)]
    assert empty_run.execute(
        "SELECT count(*) FROM base.matches WHERE collective_id IS NULL"
    ).fetchone() == (0,)


def _pause(con: Connection, rank: int, start_us: int, length_us: int) -> None:
    con.execute(
        "INSERT INTO base.pauses VALUES ($1, $1, $2, $3)",
        [rank, BASE + 1000 * start_us, 1000 * length_us],
    )


def _steps(con: Connection, first: int) -> None:
    """Four of 7 ms, each of which begins with a pause of 1 ms on every rank."""
    for rank in range(4):
        for step in range(4):
            start = 7_000 * step - 1_500
            _pause(con, rank, start + 100, 1_000)
            con.execute(
                "INSERT INTO base.steps BY NAME SELECT $1 AS rank, $1 AS source_id, $2 AS step,"
                " $3 AS start_local_ns, 7000000 AS duration_ns, 'ProfilerStep' AS source",
                [rank, first + step, BASE + 1000 * start],
            )


@nightly
def test_threads_that_begin_after_a_pause_may_serve_a_group_that_is_not_listed(
    empty_run: Connection,
) -> None:
    _job(empty_run)
    _pairs(empty_run, 300)
    for rank in range(4):
        _pause(empty_run, rank, -500, 400)  # too short to make a group in
    _pause(empty_run, 1, -1_500, 600)  # of this rank alone
    assert _told(empty_run)[2] == (3, "far", PAIRS_FAR, 40)
    for rank in (0, 2, 3):
        _pause(empty_run, rank, -1_500, 600)
    assert {group for _, group, *_ in _told(empty_run)} == {None}


@nightly
def test_calls_of_every_step_are_of_groups_that_were_there_before(empty_run: Connection) -> None:
    _job(empty_run)
    _pairs(empty_run, 300, rest_us=2_000)
    _steps(empty_run, first=7)
    assert _told(empty_run)[2] == (3, "far", PAIRS_FAR, 40)

    # the first is 1.5 ms longer, and so is its pause: a group may have been made
    for table in ("base.steps", "base.pauses"):
        empty_run.execute(
            f"UPDATE {table} SET start_local_ns = start_local_ns - 1500000,"
            " duration_ns = duration_ns + 1500000 WHERE start_local_ns < $1",
            [BASE],
        )
    assert {group for _, group, *_ in _told(empty_run)} == {None}


def test_in_step_0_a_job_may_set_itself_up(empty_run: Connection) -> None:
    _job(empty_run)
    _pairs(empty_run, 300, rest_us=2_000)
    _steps(empty_run, first=0)
    assert {group for _, group, *_ in _told(empty_run)} == {None}


def test_listed_groups_are_told_beside_one_that_was_made_late(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    name = "late_far_gloo"
    dumps = fixtures / "flight_recorder" / name
    with (
        open_database(database_of(fixtures / name)) as told,
        open_database(database_of(fixtures / name, dumps)) as recorded,
    ):
        true = [calls for (calls,) in recorded.execute(INSTANCES).fetchall()]
        assert len(true) == 2 * (4 + 12) + 2 * 12
        matched = INSTANCES.replace("GROUP BY", "WHERE collective_id IS NOT NULL GROUP BY")
        found = [calls for (calls,) in told.execute(matched).fetchall()]
        assert [calls for calls in found if calls not in true] == []
        assert len(found) >= 2 * (4 + 12)  # those of the near pairs, which are listed


def test_a_sole_listed_group_is_not_that_of_groups_made_late(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    with open_database(database_of(fixtures / "late_pairs_gloo")) as told:
        # pairs that run in step: by the listed group of all ranks, and by ends, 24 would be wrong
        assert told.execute(
            "SELECT count(*), count(collective_id) FROM collectives"
        ).fetchall() == [(4 * 2 * 12, 0)]


@nightly
def test_a_dump_says_more_than_that_only_one_group_is_listed(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    """What was wrong: the listed group of all ranks was kept, and all calls stayed unmatched."""
    name = "late_pairs_gloo"
    dumps = fixtures / "flight_recorder" / name
    with open_database(database_of(fixtures / name, dumps)) as recorded:
        groups = "SELECT list_transform(ranks, lambda r: CAST(r AS INTEGER)) FROM groups ORDER BY 1"
        assert [ranks for (ranks,) in recorded.execute(groups).fetchall()] == [
            [0, 1], [0, 2], [1, 3], [2, 3],
        ]  # fmt: skip
        instances = (
            "SELECT list_sort(list(k.rank)) = any_value(g.ranks), count(DISTINCT k.seq)"
            " FROM collectives AS k JOIN groups AS g USING (group_id) GROUP BY k.collective_id"
        )
        assert recorded.execute(instances).fetchall() == [(True, 1)] * (2 * 2 * 12)


def test_a_file_that_ends_early_leaves_only_its_own_rank_open(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    """What was wrong: it lacks all that one thread did, and so no rank's threads were told."""
    whole = fixtures / "tp2_dp2_gloo"
    for path in whole.glob("*.json.gz"):
        text = gzip.decompress(path.read_bytes())
        cut = len(text) * 7 // 10 if path.name == "rank1.json.gz" else None
        (tmp_path / path.stem).write_bytes(text[:cut])
    assert not ingest(tmp_path, tmp_path / "run.duckdb").ok
    with open_database(tmp_path / "run.duckdb") as told, open_database(database_of(whole)) as true:
        instances = (
            "SELECT list((rank, start_local_ns) ORDER BY rank) AS calls FROM collectives"
            " WHERE collective_id IS NOT NULL GROUP BY collective_id HAVING NOT list_contains("
            "list(rank), 1) ORDER BY calls"
        )
        found = told.execute(instances).fetchall()
        assert len(found) == 20 + 8  # of ranks 2 and 3, and of 0 and 2
        assert found == true.execute(instances).fetchall()
        left = "SELECT DISTINCT rank FROM collectives WHERE collective_id IS NOT NULL ORDER BY 1"
        assert told.execute(left).fetchall() == [(0,), (2,), (3,)]
