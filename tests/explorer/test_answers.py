"""What is told of operations, selections and hits, against the public relations and analyses."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

import pytest

import traceweave
from tests.explorer.reading import decode
from tests.marks import nightly
from traceweave.analyses import shared_rows
from traceweave.analyses.rules import subject_said
from traceweave.errors import QueryError, UsageError
from traceweave.explorer.asking import TakenBackError
from traceweave.explorer.console import MOST_PAGES, MOST_ROWS
from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.places import Places, gap_at
from traceweave.explorer.views import Stretch, short_names


@pytest.fixture(scope="module")
def run(gpu_run: Path) -> Iterator[traceweave.Run]:
    with traceweave.open(gpu_run) as run:
        yield run


def test_details_of_a_collective_say_who_came_last_and_how_long_it_waited(
    explorer: Explorer, run: traceweave.Run
) -> None:
    row = run.sql(
        "SELECT k.rank, gpu_op_id, collective_id, i.last_rank, w.wait_ns FROM collectives AS k"
        " JOIN collective_instances AS i USING (collective_id)"
        " JOIN collective_waits AS w USING (collective_id, rank)"
        " WHERE NOT w.is_last ORDER BY w.wait_ns DESC LIMIT 1"
    ).iloc[0]
    with explorer.run.asking() as asking:
        found = explorer.op(asking, "op", int(row["rank"]), int(row["gpu_op_id"]))
    (told,) = found["collectives"]
    assert told["call"]["collective_id"] == row["collective_id"]
    assert [one["rank"] for one in told["members"]][-1] == row["last_rank"]
    waits = {one["rank"]: one["wait_ns"] for one in told["members"]}
    assert waits[row["rank"]] == row["wait_ns"]
    assert set(waits) == {0, 1, 2, 3}
    assert found["launch"][0]["id"] == found["columns"]["launch_op_id"]
    # more digits than a double has
    assert found["columns"]["start_ns"].isdecimal()


def test_details_of_a_call_say_what_it_launched(explorer: Explorer, run: traceweave.Run) -> None:
    row = run.sql("SELECT rank, op_id, launch_op_id FROM gpu_ops WHERE step = 3 LIMIT 1").iloc[0]
    with explorer.run.asking() as asking:
        found = explorer.op(asking, "host", int(row["rank"]), int(row["launch_op_id"]))
    assert [one["id"] for one in found["launched"]] == [row["op_id"]]
    with explorer.run.asking() as asking, pytest.raises(UsageError, match="no operation 5"):
        explorer.op(asking, "op", 0, 5_000_000_000)


def test_what_the_host_was_in_is_told_innermost_first(
    explorer: Explorer, run: traceweave.Run
) -> None:
    """The chain of `parent_id` above the call that launched a kernel."""
    rank, op_id, launch = run.sql(
        "SELECT g.rank, g.op_id, g.launch_op_id FROM gpu_ops AS g JOIN host_ops AS h"
        " ON h.rank = g.rank AND h.op_id = g.launch_op_id ORDER BY h.depth DESC, g.op_id LIMIT 1"
    ).iloc[0]
    chain = run.sql(
        "WITH RECURSIVE up AS (SELECT * FROM host_ops WHERE rank = $rank AND op_id = $op"
        " UNION ALL SELECT h.* FROM up JOIN host_ops AS h ON h.rank = $rank"
        " AND h.op_id = up.parent_id) SELECT op_id FROM up ORDER BY depth DESC",
        {"rank": int(rank), "op": int(launch)},
    )["op_id"].tolist()
    with explorer.run.asking() as asking:
        told = explorer.op(asking, "op", int(rank), int(op_id))
    assert [one["id"] for one in told["stack"]] == chain[1:] != []


def test_totals_of_a_selection_are_the_time_that_lies_in_it(
    explorer: Explorer, run: traceweave.Run
) -> None:
    first, last = explorer.run.span_ns // 3, explorer.run.span_ns // 2
    with explorer.run.asking() as asking:
        found = explorer.totals(asking, Stretch(first, last, 1), [1, 2], -1)
    truth = run.sql(
        "SELECT class,"
        " sum(least(start_ns + duration_ns, $last) - greatest(start_ns, $first))::BIGINT AS busy,"
        " count(*) AS ops FROM gpu_ops WHERE rank IN (1, 2) AND start_ns < $last"
        " AND start_ns + duration_ns > $first GROUP BY class",
        {"first": explorer.run.origin_ns + first, "last": explorer.run.origin_ns + last},
    )
    told = {one["class"]: (one["busy_ns"], one["ops"]) for one in found["classes"]}
    assert told == {
        name: (busy, ops)
        for name, busy, ops in zip(truth["class"], truth["busy"], truth["ops"], strict=True)
    }
    busy = sum(busy for busy, _ in told.values())
    assert sum(one["busy_ns"] for one in found["lanes"]) == busy
    assert sum(one["busy_ns"] for one in found["names"]) == busy
    ranks = {explorer.run.lanes[one["lane"]].rank for one in found["lanes"]}
    assert ranks == {1, 2}
    assert all(sum(one["of_ranks"]) == one["busy_ns"] for one in found["names"])
    of_rank = run.sql(
        "SELECT sum(least(start_ns + duration_ns, $last) - greatest(start_ns, $first))::BIGINT"
        " FROM gpu_ops WHERE rank = 2 AND name = $name AND start_ns < $last"
        " AND start_ns + duration_ns > $first",
        {
            "first": explorer.run.origin_ns + first,
            "last": explorer.run.origin_ns + last,
            "name": found["names"][0]["name"],
        },
    )
    assert found["names"][0]["of_ranks"][1] == of_rank.iloc[0, 0]
    with explorer.run.asking() as asking:
        one = explorer.totals(asking, Stretch(first, last, 1), [1], found["lanes"][0]["lane"])
    assert {row["lane"] for row in one["lanes"]} <= {found["lanes"][0]["lane"]}


@nightly
def test_a_finding_is_told_as_in_the_terminal_and_shown_where_it_is_longest(
    database_of: Callable[..., Path], fixtures: Path
) -> None:
    """A recorded run in which the others wait for rank 2."""
    database = database_of(fixtures / "ddp_gloo_straggler")
    with explore(database) as explorer, explorer.run.asking() as asking:
        told = explorer.findings(asking)
        places = [explorer.finding_place(asking, i)["place"] for i in range(len(told) + 1)]
        origin = explorer.run.origin_ns
    with traceweave.open(database) as run:
        assert [one["title"] for one in told] == run.findings()["title"].tolist()
        # the first collectives apart, in which ranks wait for others that began recording later
        wait = run.sql(
            "SELECT e.rank, k.start_ns - $origin AS start_ns,"
            " least(i.last_start_ns - k.start_ns, k.duration_ns) AS duration_ns"
            " FROM exposed_comm() AS e JOIN collectives AS k USING (call_id)"
            " JOIN collective_instances AS i ON i.collective_id = e.collective_id"
            " WHERE i.last_rank = 2 AND k.start_ns > (SELECT min(f.start_ns) FROM collectives AS f"
            " WHERE f.rank = k.rank) ORDER BY e.exposed_wait_ns DESC LIMIT 1",
            {"origin": origin},
        ).to_dict("records")
        moved = run.sql("SELECT max(transfer_ns) AS longest FROM collective_instances")["longest"]
    assert all(one["command"].startswith("traceweave ") for one in told)
    subjects = {one["subject"]["kind"]: i for i, one in enumerate(told) if one["subject"]}
    assert told[subjects["waits"]]["ranks"] == [2]
    assert places[subjects["waits"]] == wait[0]
    # of which the rounding of clocks that drift is a part
    assert places[subjects["transfers"]]["duration_ns"] == pytest.approx(moved[0], rel=1e-6)
    assert places[-1] is None  # a finding that there is not


@nightly
@pytest.mark.parametrize("stated", ["", " step=3"])
def test_gaps_of_a_finding_are_those_of_its_cause(gpu_run: Path, stated: str) -> None:
    with traceweave.open(gpu_run) as run:
        gaps = run.gaps().query("rank == 2" + (" and step == 3" if stated else ""))
    cause = gaps["cause"].value_counts().index[-1]  # not the one that most have
    [longest] = gaps[gaps["cause"] == cause].nlargest(1, "duration_ns").to_dict("records")
    finding = {"ranks": [2], "group_id": None, "scenario": None}
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        place = asking.compute(
            lambda con: Places(con).place(subject_said(f"gaps {cause}{stated}"), finding)
        )
        assert (place["rank"], place["step"]) == (2, longest["step"])
        found = asking.compute(lambda con: gap_at(con, cause, place))
    assert found == {name: longest[name] for name in ("rank", "start_ns", "duration_ns")}


@nightly
def test_search_goes_through_all_hits_both_ways(explorer: Explorer, run: traceweave.Run) -> None:
    wanted = "AllReduce"
    truth = run.sql(
        "SELECT op_id, start_ns FROM gpu_ops WHERE name ILIKE '%allreduce%'"
        " ORDER BY start_ns, op_id"
    )["op_id"].tolist()
    with explorer.run.asking() as asking:
        told = explorer.search(asking, wanted)
        assert (told["ops"], told["ready"]) == (len(truth), True)
        hits = []
        at, op = 0, -1
        for _ in range(12):
            hit = explorer.hit(asking, wanted, at, op, False)["hit"]
            hits.append(hit["id"])
            at, op = hit["start_ns"], hit["id"]
        assert hits == truth[:12]
        back = [hits[-1]]
        while (hit := explorer.hit(asking, wanted, at, op, True)["hit"]) is not None:
            back.append(hit["id"])
            at, op = hit["start_ns"], hit["id"]
        assert back == truth[11::-1]
        last = run.sql("SELECT max(start_ns) AS at FROM gpu_ops")["at"][0]
        assert (
            explorer.hit(asking, wanted, int(last) - explorer.run.origin_ns, 2**52, False)["hit"]
            is None
        )
        assert explorer.search(asking, "' OR 1=1 --%")["ops"] == 0


def test_time_without_compute_is_that_of_the_analyses(
    explorer: Explorer, run: traceweave.Run
) -> None:
    stretch = Stretch(0, explorer.run.span_ns + 1, 4096)
    with explorer.run.asking() as asking:
        assert decode(explorer.gaps(asking, stretch, [3]))["missing"] == [3]
        explorer.find_gaps(asking, 3)
        found = decode(explorer.gaps(asking, stretch, [3]))
        assert found["missing"] == []
        idle = explorer.idle(asking, stretch, [0, 3])
    gaps, exposed = run.gaps(), run.exposed_causes()
    mine = gaps[gaps["rank"] == 3]
    shown = mine[mine["duration_ns"] >= (1 << stretch.shift) // 3].sort_values("start_ns")
    drawn = [
        (found["names"][name], length)
        for name, length in zip(found["name"], found["duration_ns"], strict=True)
    ]
    assert [one for one in drawn if not one[0].startswith("exposed: ")] == list(
        zip(shown["cause"], shown["duration_ns"], strict=True)
    )
    assert {tuple(one["ranks"]) for one in idle} == {(3,)}
    sums = {one["cause"]: one["idle_ns"] for one in idle}
    of_calls = [ns for cause, ns in sums.items() if cause.startswith("exposed: ")]
    assert sum(of_calls) == exposed[exposed["rank"] == 3]["time_ns"].sum() > 0
    gone = {cause: ns for cause, ns in sums.items() if not cause.startswith("exposed: ")}
    assert gone == mine.groupby("cause")["duration_ns"].sum().to_dict()


@nightly
def test_the_critical_path_is_the_one_of_the_analysis(
    explorer: Explorer, run: traceweave.Run
) -> None:
    stretch = Stretch(0, explorer.run.span_ns + 1, 4096)
    with explorer.run.asking() as asking:
        found = decode(explorer.critical_path(asking, stretch, [0, 1, 2, 3]))
        one = decode(explorer.critical_path(asking, stretch, [2]))
    rows = shared_rows(run.con, "path_pieces").fetchall()
    assert found["pieces"] == len(rows) > 50
    least = (1 << stretch.shift) // 3
    origin = explorer.run.origin_ns
    truth = {(rank, a - origin, b - a) for _, rank, _, _, a, b in rows if b - a >= least}
    drawn = list(zip(found["rank"], found["start_ns"], found["duration_ns"], strict=True))
    assert truth <= set(drawn)
    assert drawn == sorted(drawn)
    assert len(one["rank"]) == sum(rank == 2 for rank, _, _ in drawn) > 0
    # all of the path is drawn, what is too short to be seen too
    for _, rank, _, _, a, b in rows:
        covering = [(at, at + long) for whose, at, long in drawn if whose == rank]
        assert any(at <= a - origin and b - origin <= until for at, until in covering)


def test_short_stretches_of_the_path_are_joined_by_hand(gpu_run: Path) -> None:
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        asking.compute(
            lambda con: con.execute(
                """
                INSERT INTO memory.explorer.path VALUES
                    (0, 0, 4, 'compute', 'gemm'), (0, 4, 3, 'launch', NULL),
                    (0, 7, 30, 'sync', NULL),
                    (0, 37, 2, 'compute', 'norm'), (0, 39, 3, 'launch', NULL),
                    (1, 42, 18, 'transfer', 'all_reduce'),
                    (0, 60, 2, 'compute', 'gemm')
                """
            )
        )
        bounds = {"ranks": [0, 1], "from_ns": 0, "until_ns": 100}

        def shown(least_ns: int) -> list[tuple[object, ...]]:
            rows = asking.rows("path_shown", **bounds, least_ns=least_ns)
            return [tuple(row.values()) for row in rows]

        short = "2 short stretches, most of their time"
        assert shown(10) == [
            (0, 0, 7, "compute", short), (0, 7, 30, "sync", ""), (0, 37, 5, "launch", short),
            (0, 60, 2, "compute", "gemm"), (1, 42, 18, "transfer", "all_reduce"),
        ]  # fmt: skip
        assert len(shown(0)) == 7


@nightly
def test_a_run_that_hardly_leaves_one_rank_shows_its_path_there_without_a_hole(
    corpus: Path, database_of: Callable[..., Path]
) -> None:
    with (
        explore(database_of(corpus / "kineto" / "megatron_tp8")) as explorer,
        explorer.run.asking() as asking,
    ):
        stretch = Stretch(0, explorer.run.span_ns + 1, 1_000)
        found = decode(explorer.critical_path(asking, stretch, list(explorer.run.ranks)))
    assert set(found["rank"]) == {0}
    ends = found["start_ns"] + found["duration_ns"]
    assert (found["start_ns"][1:] - ends[:-1]).max() <= 0
    assert len(ends) < found["pieces"] / 2


def test_the_trace_for_perfetto_has_what_was_selected(explorer: Explorer, tmp_path: Path) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    stretch = Stretch(explorer.run.span_ns // 3, explorer.run.span_ns // 2, 1)
    trace = Trace.FromString(explorer.trace(stretch, [1], host=False))
    begins = sum(p.track_event.type == p.track_event.TYPE_SLICE_BEGIN for p in trace.packet)
    with explorer.run.asking() as asking:
        found = explorer.totals(asking, stretch, [1], -1)
    assert begins >= sum(one["ops"] for one in found["classes"]) > 100
    processes = {
        p.track_descriptor.process.pid
        for p in trace.packet
        if p.track_descriptor.HasField("process")
    }
    assert processes == {1}


def test_the_console_answers_as_query_does(explorer: Explorer) -> None:
    asked = explorer.question("a", "SELECT rank, max(idle_ns) FROM breakdown() GROUP BY rank")
    found = asked.answer()
    assert [column["name"] for column in found["columns"]] == ["rank", "max(idle_ns)"]
    assert {row[0] for row in found["rows"]} == {0, 1, 2, 3}
    exact = explorer.question("a", "SELECT 9007199254740993, 1.5, NULL, [1, 2], 'x'").answer()
    assert exact["rows"] == [["9007199254740993", 1.5, None, "[1,2]", "x"]]


def test_the_console_keeps_what_a_page_makes_and_no_other_sees_it(explorer: Explorer) -> None:
    explorer.question("b", "CREATE TEMP TABLE mine AS SELECT 7 AS n; FROM mine").answer()
    assert explorer.question("b", "FROM mine").answer()["rows"] == [[7]]
    with pytest.raises(QueryError, match="does not exist"):
        explorer.question("c", "FROM mine").answer()


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/passwd')", "CREATE TABLE run.main.t AS SELECT 1",
        "DELETE FROM run.base.gpu_ops", "FROM memory.explorer.lanes",
        "EXPORT DATABASE '/tmp/explorer-wrote'",
    ],
)  # fmt: skip
def test_sql_cannot_read_files_or_write(explorer: Explorer, sql: str) -> None:
    with pytest.raises(QueryError):
        explorer.question("d", sql).answer()
    assert not list(Path("/tmp").glob("explorer-wrote*"))


def test_an_answer_has_bounds(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = explorer.question("e", "FROM range(1000000)").answer()
    assert (len(found["rows"]), found["more"]) == (MOST_ROWS, True)
    monkeypatch.setattr("traceweave.explorer.console.TIME_LIMIT_S", 0.2)
    with pytest.raises(QueryError, match=r"given up after 0\.2 s"):
        explorer.question(
            "e", "SELECT count(*) FROM range(1000000000000) WHERE range % 7 = 3"
        ).answer()


def test_short_names_tell_kernels_apart() -> None:
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float> >(int)"
    assert short_names([name, "ampere_gemm_tn", name]) == [
        "vectorized_elementwise_kernel<4, AddFunctor<float> >",
        "ampere_gemm_tn",
        "vectorized_elementwise_kernel<4, AddFunctor<float> >",
    ]


def test_who_waits_for_an_analysis_can_be_given_up(explorer: Explorer) -> None:
    lock = Lock()
    with lock, explorer.run.asking() as asking:
        asking.take_back()
        with pytest.raises(TakenBackError), asking.turn(lock):
            pass
    with explorer.run.asking() as asking, asking.turn(lock):
        assert lock.locked()
    assert not lock.locked()


@nightly
def test_a_console_that_is_asked_is_not_closed_for_others(explorer: Explorer) -> None:
    endless = "SELECT count(*) FROM range(1000000000000) AS a(i) WHERE i % 7 = 3"
    with ThreadPoolExecutor(1) as pool:
        question = explorer.question("busy", endless)
        asked = pool.submit(question.answer)
        for page in range(MOST_PAGES + 3):
            assert explorer.question(f"other {page}", "SELECT 1").answer()["rows"] == [[1]]
        assert not asked.done()
        while not asked.done():
            question.take_back()
            time.sleep(0.05)
        with pytest.raises(TakenBackError):
            asked.result()
