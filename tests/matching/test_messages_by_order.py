"""Sends and receives of gloo: pairs as the job noted them, or none."""

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from tests.marks import first_at_once, nightly
from traceweave.matching.messages_by_order import NEVER, Side, _over, possible_shifts
from traceweave.store.database import open_database
from traceweave.weave import weave

US = 1_000
MESSAGES = "FROM base.known_calls JOIN base.matches USING (call_id) WHERE op IN ('send', 'recv')"


def _noted(con: duckdb.DuckDBPyConnection, truth: Path) -> dict[int, tuple[object, ...]]:
    """What the job noted of every call: group, sender, receiver, tag, number."""
    found = {}
    for rank in range(4):
        notes = json.loads((truth / f"rank{rank}.json").read_text())
        times = [at for at, *_ in notes]
        for call, issued in con.execute(
            "SELECT call_id, issued_local_ns FROM base.messages AS m"
            " JOIN base.known_calls AS k USING (source_id, host_op_id) WHERE m.rank = ?",
            [rank],
        ).fetchall():
            found[call] = tuple(notes[bisect_right(times, issued) - 1][1:])
    return found


@first_at_once()
@pytest.mark.parametrize(
    ("name", "pairs"), [("messages_mesh_gloo", 48), ("messages_tags_gloo", 48)]
)
def test_pairs_are_those_that_the_job_noted(
    fixtures: Path, database_of: Callable[..., Path], name: str, pairs: int
) -> None:
    with open_database(database_of(fixtures / name)) as con:
        noted = _noted(con, fixtures / "message_truth" / name)
        instances = defaultdict(list)
        for call, instance, peer, op in con.execute(
            f"SELECT call_id, collective_id, peer, op {MESSAGES}"
        ).fetchall():
            instances[instance].append(noted[call])
            _, sender, receiver, *_ = noted[call]
            assert peer == (receiver if op == "send" else sender)
        assert None not in instances
        assert len(instances) == pairs
        assert all(len(both) == 2 and both[0] == both[1] for both in instances.values())


def test_messages_of_a_rank_that_was_not_recorded_stay_open(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    name = "messages_tags_gloo"
    files = (fixtures / name / f"rank{rank}.json.gz" for rank in (0, 2, 3))
    with open_database(database_of(*files)) as con:
        noted = _noted(con, fixtures / "message_truth" / name)
        matched = con.execute(f"SELECT call_id, collective_id {MESSAGES}").fetchall()
        pairs = defaultdict(set)
        for call, instance in matched:
            if instance is not None:
                pairs[instance].add(noted[call])
            else:
                assert 1 in noted[call][1:3]
        # from 2 to 3 and from 3 to 0
        assert len(pairs) == 24
        assert all(len(notes) == 1 for notes in pairs.values())


def test_groups_that_cross_stay_open(fixtures: Path, database_of: Callable[..., Path]) -> None:
    with open_database(database_of(fixtures / "messages_crossing_gloo")) as con:
        assert con.execute(f"SELECT count(*), count(collective_id) {MESSAGES}").fetchall() == [
            (48, 0)
        ]
        assert con.execute("SELECT kind, count FROM ingest_issues").fetchall() == [
            ("unmatched_collectives: several groups of the same members may carry it", 48)
        ]


def test_a_group_has_its_name_where_no_other_has_both_ranks_at_these_places(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    # for ranks 0 and 1 the group of all ranks has the same places
    with open_database(database_of(fixtures / "messages_mesh_gloo")) as con:
        assert con.execute(
            "SELECT description, ranks, count(*) FROM collectives JOIN groups USING (group_id)"
            " WHERE op IN ('send', 'recv') GROUP BY ALL ORDER BY ranks"
        ).fetchall() == [(None, [0, 1], 48), ("mesh_pp", [2, 3], 48)]


# what failed: GPUs' messages of which the host's operation says what they are were taken for gloo's
# that no call had issued, after which order tells nothing
@nightly
def test_messages_of_gpus_beside_those_of_gloo_change_nothing(
    fixtures: Path, tmp_path: Path
) -> None:
    database = tmp_path / "run.duckdb"
    assert traceweave.ingest([fixtures / "messages_mesh_gloo"], database).ok
    with duckdb.connect(str(database)) as con:
        state = f"SELECT call_id, collective_id IS NULL, match, peer {MESSAGES} ORDER BY call_id"
        before = con.execute(state).fetchall()
        con.execute(
            "INSERT INTO base.collective_calls BY NAME SELECT * REPLACE (1000000 + rank AS call_id,"
            " -1 AS host_op_id, 1000000 + rank AS gpu_op_id, 'send' AS op) FROM"
            " base.collective_calls QUALIFY row_number() OVER (PARTITION BY rank) = 1"
        )
        weave(con)
        assert con.execute(state.replace("ORDER", "AND gpu_op_id IS NULL ORDER")).fetchall() == (
            before
        )
        assert len(before) == 96


@nightly
def test_messages_say_nothing_of_clocks_and_weaving_again_changes_nothing(
    fixtures: Path, tmp_path: Path
) -> None:
    database = tmp_path / "run.duckdb"
    assert traceweave.ingest([fixtures / "messages_mesh_gloo"], database).ok
    with duckdb.connect(str(database)) as con:
        clocks = "FROM clocks ORDER BY ALL"
        tables = ("base.collective_calls", "base.inferences", "base.matches", "groups")
        all_of = [clocks, *(f"FROM {table} ORDER BY ALL" for table in tables)]
        before = [con.execute(query).fetchall() for query in all_of]
        weave(con)
        assert [con.execute(query).fetchall() for query in all_of] == before
        con.execute("DELETE FROM base.messages")
        weave(con)
        assert con.execute(clocks).fetchall() == before[0]


def test_who_waited_for_less_than_a_message_takes_found_it_there() -> None:
    """Both sides are there at 100, 200 and 300 us. The first was waited for, for 20 us; of the
    others who receives asks at 250, and waits for 5 us, and at 350, and waits for 30.
    """
    window = (0, 1_000)
    sent = _side(0, [(100, 900), (200, 900), (300, 900)], window)
    received = _side(1, [(90, 120), (190, 255), (290, 380)], window)
    received = replace(received, free=np.array([90, 250, 350]) * US)
    every = np.arange(3)
    assert (_over(sent, every, received, every) / US).tolist() == [120, 220, 380]


def _side(rank: int, spans: list[tuple[float, float | None]], window: tuple[float, float]) -> Side:
    issued, waited = (
        np.array([NEVER if at is None else round(at * US) for at in times], np.int64)
        for times in zip(*spans, strict=True)
    )
    same = np.zeros(len(spans), np.int64)
    return Side(
        rank, rank, rank == 0, 1 - rank, np.arange(len(spans)), issued, waited, issued, same, same,
        same, False, (round(window[0] * US), round(window[1] * US)),
    )  # fmt: skip


def test_causality_leaves_one_shift_where_a_rank_waits_for_each_message() -> None:
    window = (0, 100_000)
    sent = _side(0, [(1_000 * n, 1_000 * n + 600) for n in range(1, 9)], window)
    received = _side(1, [(1_000 * n + 200, 1_000 * n + 650) for n in range(1, 9)], window)
    assert possible_shifts(sent, received) == [0]


def test_a_file_that_begins_late_lacks_the_first_messages() -> None:
    sent = _side(0, [(1_000 * n, 1_000 * n + 600) for n in range(1, 9)], (0, 100_000))
    spans: list[tuple[float, float | None]] = [
        (1_000 * n + 200, 1_000 * n + 650) for n in range(4, 9)
    ]
    assert possible_shifts(sent, _side(1, spans, (3_900, 100_000))) == [-3]


def test_messages_that_outlast_the_next_one_leave_several_shifts() -> None:
    # nobody waits for them before all are sent: any of them may be any, if files begin at unlike
    # moments
    sent = _side(0, [(1_000 + n, None) for n in range(4)], (0, 9_000))
    received = _side(1, [(1_000 + n, None) for n in range(4)], (0, 9_000))
    assert len(possible_shifts(sent, received)) > 1


def test_a_message_is_not_over_before_both_sides_were_issued() -> None:
    window = (0, 9_000)
    sent = _side(0, [(1_000, 1_100)], window)
    assert possible_shifts(sent, _side(1, [(1_300, 1_400)], window)) == []
    assert possible_shifts(sent, _side(1, [(1_050, 1_400)], window)) == [0]


def test_sizes_that_differ_are_no_message() -> None:
    window = (0, 9_000)
    sent, received = (_side(rank, [(1_000, 1_100)], window) for rank in (0, 1))
    received.size[:] = 8
    assert possible_shifts(sent, received) == []
