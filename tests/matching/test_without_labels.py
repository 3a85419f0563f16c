"""Calls whose groups no trace names: what is matched is what the labels say, and no call more."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from tests.marks import at_once, first_at_once, nightly
from tests.tables import empty_database
from traceweave.arrays import Ints
from traceweave.matching.calls import Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.groups import Job as World
from traceweave.matching.groups import layouts
from traceweave.matching.groups_by_evidence import Search, _together
from traceweave.matching.strands import Strand, strands_of
from traceweave.matching.ties import LEAST, Bundle, own_calls, weigh
from traceweave.store.empty import create_tables
from traceweave.weave import weave

Connection = duckdb.DuckDBPyConnection
DatabaseOf = Callable[..., Path]

LABELS = "seq, group_name, group_desc, group_ranks, comm_id, group_size, peer"
SIZES = "bytes, dtype"


@contextmanager
def copied(database: Path) -> Iterator[Connection]:
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{database}' AS run (READ_ONLY)")
        con.execute("COPY FROM DATABASE run TO memory")
        yield con


def strip(con: Connection, columns: str) -> None:
    nothing = ", ".join(f"{column.strip()} = NULL" for column in columns.split(","))
    con.execute(f"UPDATE base.collective_calls SET {nothing}")
    con.execute("DELETE FROM base.listed_groups")


def instances(con: Connection) -> list[tuple[int, ...]]:
    """The calls of every instance."""
    rows = con.execute(
        "SELECT list(call_id ORDER BY call_id) FROM base.matches"
        " WHERE collective_id IS NOT NULL GROUP BY collective_id"
    ).fetchall()
    return sorted(tuple(calls) for (calls,) in rows)


@pytest.mark.parametrize(
    "taken",
    at_once([LABELS, f"{LABELS}, {SIZES}"], f"{LABELS}, {SIZES}"),
    ids=["labels", "sizes too"],
)
@first_at_once(2)
@pytest.mark.parametrize(
    "name",
    [
        "kineto/megatron_tp8", "kineto/megatron_tp2", "kineto/nanogpt_8xh100", "kineto/torchrec_4",
        "nsys/fsdp_2rank_before__2026.2.sqlite", "nsys/fsdp_2rank_after__2026.2.sqlite",
    ],
)  # fmt: skip
def test_real_runs_are_matched_without_labels_as_with_them(
    corpus: Path, database_of: DatabaseOf, name: str, taken: str
) -> None:
    with copied(database_of(corpus / name)) as con:
        with_labels = instances(con)
        strip(con, taken)
        weave(con)
        assert instances(con) == with_labels
        assert (
            sum(map(len, with_labels))
            == con.execute("FROM base.matches").fetchnumpy()["call_id"].size
        )


# what was wrong: of eight ranks of one tensor parallel group, any two or four were matched, and any
# five, six or seven were not; of three of which one mostly comes last others may have waited for
# mates that came with it
@pytest.mark.parametrize("missing", at_once([(3,), (0,), (7,), (1, 5), (0, 1, 2, 3, 5)], (3,)))
def test_ranks_that_were_not_recorded_leave_the_others_matched(
    corpus: Path, database_of: DatabaseOf, missing: tuple[int, ...]
) -> None:
    with copied(database_of(corpus / "kineto" / "megatron_tp8")) as con:
        con.execute(f"DELETE FROM base.rank_sources WHERE list_contains({list(missing)}, rank)")
        con.execute(f"DELETE FROM base.collective_calls WHERE list_contains({list(missing)}, rank)")
        (left,) = con.execute("SELECT list(call_id) FROM base.collective_calls").fetchall()[0]
        of_all = [tuple(sorted({*calls} & {*left})) for calls in instances(con)]
        weave(con)
        assert instances(con) == (sorted(of_all) if len(missing) < 5 else [])
        assert len(of_all) == 84


@nightly
def test_recordings_of_ours_are_matched_without_labels_as_with_them(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    for name in ("fsdp1_gloo", "fsdp2_gloo", "uneven_work_gloo", "uneven_start_gloo"):
        with copied(database_of(fixtures / name)) as con:
            with_labels = instances(con)
            strip(con, LABELS)
            weave(con)
            assert instances(con) == with_labels != [], name


@nightly
def test_calls_of_more_threads_than_one_group_has_stay_open(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    # dispatch, combine and the world have two threads each; that all have the same members, only
    # labels say: pairs that run in step would look the same
    with copied(database_of(fixtures / "two_groups_gloo")) as con:
        strip(con, LABELS)
        weave(con)
        assert instances(con) == []
        why = "may be several; flight recorder dumps name them"
        assert con.execute(
            "SELECT count(*) FROM ingest_issues WHERE ends_with(message, ?)", [why]
        ).fetchall() == [(1,)]


@nightly
def test_groups_side_by_side_are_found_and_not_joined(
    fixtures: Path, database_of: DatabaseOf
) -> None:
    # mesh_tp is (0, 1) and (2, 3), 5 calls a step; what mesh_dp did is too little to prove it
    with copied(database_of(fixtures / "tp2_dp2_gloo")) as con:
        strip(con, LABELS)
        weave(con)
        found = con.execute(
            "SELECT ranks, op, count(*) AS calls FROM collectives JOIN groups USING (group_id)"
            " WHERE match <> 'unmatched' GROUP BY ALL"
        ).fetchall()
        assert {(*ranks, op, calls) for ranks, op, calls in found} in (
            {(0, 1, "all_reduce", 40)},
            {(0, 1, "all_reduce", 40), (2, 3, "all_reduce", 40)},
        )
        assert con.execute("FROM ingest_issues WHERE kind LIKE 'unmatched%'").fetchall()


@nightly
@pytest.mark.parametrize("apart_ns", [0, 3_000_000])
def test_two_runs_are_not_joined(corpus: Path, tmp_path: Path, apart_ns: int) -> None:
    source = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    with empty_database() as con:
        create_tables(con)
        for number in (0, 1):
            traceweave.ingest(source, tmp_path / f"{number}.duckdb", run=number + 1)
            add_run(con, tmp_path / f"{number}.duckdb", 4 * number, 10**18 + apart_ns * number)
        weave(con)
        ranks = con.execute(
            "SELECT min(rank), max(rank) FROM base.matches JOIN base.collective_calls"
            " USING (call_id) WHERE collective_id IS NOT NULL GROUP BY collective_id"
        ).fetchall()
        assert ranks
        assert {low < 4 <= high for low, high in ranks} == {False}


def add_run(con: Connection, database: Path, first_rank: int, start_ns: int) -> None:
    """Add the ranks of a run to those of `con`, as if they had begun at `start_ns`."""
    con.execute(f"ATTACH '{database}' AS added (READ_ONLY)")
    begun = con.execute("SELECT min(start_local_ns) FROM added.base.collective_calls").fetchone()
    assert begun is not None
    moved = f"start_local_ns + {start_ns - begun[0]} AS start_local_ns"
    other = f"rank + {first_rank} AS rank, source_id + {first_rank} AS source_id"
    con.execute(
        "INSERT INTO base.collective_calls BY NAME SELECT * REPLACE"
        f" (call_id + {10**9 * first_rank} AS call_id, {other}, {moved})"
        " FROM added.base.collective_calls"
    )
    con.execute(
        "INSERT INTO base.rank_sources BY NAME SELECT * REPLACE"
        f" ({other}, 8 AS world_size) FROM added.base.rank_sources"
    )
    con.execute("DETACH added")


def test_a_call_is_proven_with_its_like() -> None:
    # every fifth call of 60 says nothing: it may be of another group; one that comes alone is not
    says, place = np.full(60, 5.0), np.arange(60)
    says[20] = -1.0
    assert own_calls(says, place).all()
    says[3::5] = 0.5
    assert (own_calls(says, place) == (place % 5 != 3)).all()
    assert not own_calls(np.full(LEAST - 1, 5.0), np.arange(LEAST - 1)).any()


def test_calls_of_another_group_do_not_speak_for_those_beside_them() -> None:
    # every 20th call clearly is of another group, as is half of what lies 10 calls apart
    says, place = np.full(200, 5.0), np.arange(200)
    says[19::20] = -15.0
    assert (own_calls(says, place) == (place % 20 != 19)).all()


def test_what_is_left_of_a_stream_is_proven_with_its_like() -> None:
    # every 20th call of a stream is left over, and two that came alone
    place = np.sort(np.r_[np.arange(19, 200, 20), 93, 148])
    assert (own_calls(np.full(len(place), 5.0), place) == (place % 20 == 19)).all()


def side_by_side(groups: list[int], seed: int = 0) -> Bundle:
    """40 calls of 4 ranks: each group of ranks ends 100 us after its last start, to within 2 us."""
    rng = np.random.default_rng(seed)
    start = np.arange(40)[:, None] * 1e7 + rng.uniform(0, 500_000, (40, 4))
    end = np.empty_like(start)
    for group in set(groups):
        mine = np.array(groups) == group
        end[:, mine] = start[:, mine].max(axis=1, keepdims=True) + 100_000
    return Bundle(np.arange(4), start, end + rng.normal(0, 2_000, end.shape))


def halves() -> list[Ints]:
    return [np.array([0, 1]), np.array([2, 3])]


def test_ends_tell_one_group_from_two() -> None:
    one, two = (weigh(side_by_side(groups), halves()) for groups in ([0] * 4, [0, 0, 1, 1]))
    assert one.proves
    # 2 us on each side, the mean of two ranks: sqrt(2) us, of which half lie within 0.67 of them
    assert one.ends_ns == pytest.approx(0.67 * 2_000, rel=0.4)
    assert two.clear
    assert two.evidence < 0


# what was wrong: of 24 calls that began far apart on the two halves some were the median of those
# around them, so that they seemed to take exactly as long on both, as calls of two groups do
def test_a_call_is_not_compared_with_itself() -> None:
    against = 0.0
    for seed in range(20):
        whole = side_by_side([0] * 4, seed)
        few = replace(whole, start=whole.start[:24], end=whole.end[:24], pure=True)
        against += 24 * weigh(few, halves()).against
    # of 480 calls; 10 before
    assert against == pytest.approx(2)


def across_hosts() -> Bundle:
    """24 calls of eight groups across four hosts of eight ranks, which begin within 2 us on a host
    and within 200 us everywhere; each group ends 100 us after its last start, to within 5 us."""
    rng = np.random.default_rng(4)
    hosts = np.repeat(rng.uniform(0, 200_000, (24, 4)), 8, axis=1)
    start = np.arange(24)[:, None] * 1e7 + hosts + rng.uniform(0, 2_000, hosts.shape)
    last = np.tile(start.reshape(24, 4, 8).max(axis=1), 4)
    return Bundle(np.arange(32), start, last + 100_000 + rng.normal(0, 5_000, start.shape))


# what failed: of all ways to divide 32 ranks and more, those beside the right one stayed possible
# over few calls, since most neighbours are of one host, where ends tell nothing: of what all ways
# had in common nothing was left, and hosts stayed on their own wall clocks
def test_two_neighbours_of_one_group_refute_all_ways_that_part_them() -> None:
    whole = across_hosts()
    ways = {len(way): way for way in layouts(32) if not weigh(whole, way).joins}
    # the eight groups, and every second and fourth of them together
    assert sorted(ways) == [2, 4, 8]
    assert [part.tolist() for part in _together([*ways.values()])] == [
        [*range(first, 32, 8)] for first in range(8)
    ]
    # on average neighbours tell too little
    each = [np.array([rank]) for rank in range(32)]
    assert not weigh(whole, each).proves


def test_groups_lie_evenly_over_a_job() -> None:
    world = World(ranks=tuple(range(16)), size=16)
    for ranks in ([0, 1, 2, 3], [4, 5, 6, 7], [1, 5, 9, 13], [0, 8], [3, 11], list(range(16))):
        assert world.group_of(ranks) == ranks
    for ranks in ([0, 1, 4], [8, 11], [2, 3, 4, 5], [4, 8], [0, 1, 2]):
        assert world.group_of(ranks) is None, ranks


def test_most_of_a_group_of_a_job_may_be_all_that_was_recorded() -> None:
    part = World(ranks=(0, 1, 2, 4, 5, 6, 7), size=8)
    everyone = list(range(8))
    for ranks, group in {
        (0, 1, 2): [0, 1, 2, 3],
        (4, 5, 6, 7): [4, 5, 6, 7],
        (1, 5, 7): [1, 3, 5, 7],
        (0, 1, 2, 4, 5, 6, 7): everyone,
    }.items():
        assert part.group_of(list(ranks)) == group
    # of two groups, fewer than were recorded, and too little to tell
    for ranks in ((0, 1, 2, 4), (0, 1, 2, 4, 5), (2, 7)):
        assert part.group_of(list(ranks)) is None
    assert World(ranks=(0, 5), size=8).group_of([0, 5]) is None
    # where nothing says how many there are, those that were recorded are the job
    assert World(ranks=(4, 5, 7), size=None).group_of([4, 5, 7]) == [4, 5, 7]
    # of a job that is smaller than it can be, as a wrong environment says, likewise
    assert World(ranks=(4, 5, 7), size=4).group_of([4, 5, 7]) == [4, 5, 7]
    halves = [[0, 1, 2], [3, 4, 5, 6]]
    found = [[part.tolist() for part in way] for way, _ in part.layouts(list(part.ranks))]
    assert halves in found
    assert [[0, 1], [2], [3, 4], [5, 6]] in found
    assert [[0, 2, 3, 5], [1, 4, 6]] in found
    assert len(found) == 5


def test_ranks_that_are_one_part_whichever_way_a_set_is_divided_are_told() -> None:
    """Of the ways that eight ranks may be groups, none, one and several are open."""
    two = [np.r_[0:8:2], np.r_[1:8:2]]
    four = [np.r_[first:8:4] for first in range(4)]
    neighbours = [np.r_[0:4], np.r_[4:8]]

    def told(*open_ways: list[Ints]) -> list[list[int]]:
        return sorted(part.tolist() for part in _together(list(open_ways)))

    assert told() == []
    assert told(two) == [[0, 2, 4, 6], [1, 3, 5, 7]]
    assert told(two, four) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert told(two, neighbours) == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert told(four, neighbours) == []


def strands_of_two(together: bool) -> tuple[Search, list[Strand]]:
    """40 calls of ranks (0, 1) and (2, 3), whose last starts coincide or do not."""
    rng = np.random.default_rng(8)
    start = np.arange(40)[:, None] * 10_000_000 + rng.integers(0, 400_000, (40, 4))
    last = np.arange(40) * 10_000_000 + 500_000
    start[:, 1] = last
    start[:, 3] = last + (0 if together else rng.integers(0, 400_000, 40))
    end = start[:, [1, 1, 3, 3]] + 100_000 + rng.integers(-2_000, 2_000, (40, 4))
    none, zero = np.full(160, -1, dtype=np.int64), np.zeros(160, dtype=np.int64)
    numbers = {f.name: none for f in fields(Calls)} | {
        "call_id": np.arange(160), "rank": np.repeat(np.arange(4), 40), "op": zero,
        "on_gpu": zero == 0, "computing": zero > 0, "start": start.T.ravel(), "end": end.T.ravel(),
    }  # fmt: skip
    calls = Calls(**numbers | {"origin_ns": 0})  # type: ignore[arg-type]
    time = CommonTime(calls, none, lambda one, other: True)
    search = Search(time, World(ranks=(0, 1, 2, 3), size=4), lambda one, other: True)
    return search, strands_of(calls, np.arange(160), zero, -1, None)


# what was missing: of four groups that begin together, those that were proven by themselves, in a
# later turn, did not say that they may be one with the others
@pytest.mark.parametrize("together", [True, False])
def test_sets_that_may_be_one_say_so_in_whichever_turn_they_were_proven(together: bool) -> None:
    search, strands = strands_of_two(together)
    pairs = [
        search._around(*pair) for pair in ((strands[0], strands[1:2]), (strands[2], strands[3:]))
    ]
    proven = [one for pair in pairs for one in search._prove(pair)]
    assert [(one.ranks(), one.whole) for one in proven] == [([0, 1], True), ([2, 3], True)]
    settled = search._settle(proven)
    assert [(one.ranks(), one.whole) for one in settled] == [
        ([0, 1], not together),
        ([2, 3], not together),
    ]
