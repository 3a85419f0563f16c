"""Which group gloo's worker threads serve: as the job's flight recorder says, or nothing."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.marks import at_once, nightly
from tests.rewritten import rewritten
from traceweave import ingest
from traceweave.store.database import open_database

RECORDED = (
    "pairs_gloo", "odd_groups_gloo", "two_groups_gloo", "tp2_dp2_gloo", "slow_rank_2x2_gloo",
    "two_interfaces_gloo", "pairs_meet_gloo", "all_or_pairs_gloo",
)  # fmt: skip
"""Fixtures of several groups, or of one with four threads, with the flight recorder's dumps of the
same processes beside them; of the first two and the last two the host is known; in the
first and the last groups are listed that nobody uses."""

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


@nightly
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


def matched(folder: Path) -> list[tuple[list[int], int, int]]:
    """The members of each group, its calls, and how many of them are matched."""
    database = folder.with_suffix(".duckdb")
    assert ingest(folder, database).ok
    with open_database(database) as told:
        return told.execute(
            "SELECT ranks, count(*), count(collective_id)"
            " FROM collectives JOIN groups USING (group_id) GROUP BY ranks ORDER BY ranks"
        ).fetchall()


def test_who_has_waited_longest_takes_the_next_call(fixtures: Path, tmp_path: Path) -> None:
    """What was wrong: one thread of a pair might have served it alone, and the other all ranks, who
    meet once: half of the calls of the pairs stayed unmatched."""

    def meet_once(trace: dict[str, Any]) -> None:
        met: set[str] = set()
        kept = []
        for event in sorted(trace["traceEvents"], key=lambda event: event.get("ts", 0)):
            if event.get("args", {}).get("Input Dims") in ([[16]], [[[16]], [], [], [], [], []]):
                if event["name"] in met:
                    continue
                met.add(event["name"])
            kept.append(event)
        trace["traceEvents"] = kept

    folder = rewritten(fixtures / "pairs_meet_gloo", tmp_path / "once", meet_once)
    assert matched(folder) == [([0, 1], 24, 24), ([0, 1, 2, 3], 4, 4), ([2, 3], 24, 24)]


@nightly
def test_one_thread_may_do_all_calls_that_come_at_once(fixtures: Path, tmp_path: Path) -> None:
    """What was wrong: no thread did more than three calls alone. Of sums one after the other, 70 to
    270 us apart, one does up to eight: of such a recording not one call was matched."""

    def meet_five_times_at_once(trace: dict[str, Any]) -> None:
        events = trace["traceEvents"]
        meetings = [e for e in events if e.get("args", {}).get("Input Dims") == [[16]]]
        last = max(meetings, key=lambda event: float(event["ts"]))
        end = float(last["ts"]) + float(last["dur"])
        trace["traceEvents"] = [e for e in events if e not in meetings] + [
            last | {"ts": end - 1500 - 1600 * n, "dur": 1500} for n in range(5)
        ]

    folder = rewritten(fixtures / "pairs_meet_gloo", tmp_path / "five", meet_five_times_at_once)
    assert matched(folder) == [([0, 1], 24, 24), ([0, 1, 2, 3], 20, 20), ([2, 3], 24, 24)]
