"""What is drawn: blocks hold exactly the time of the operations, and few operations stand alone."""

import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traceweave
from tests.conftest import MakeOnce
from tests.explorer.reading import decode
from tests.marks import nightly
from traceweave.errors import UsageError
from traceweave.explorer import levels, views
from traceweave.explorer.asking import Asking
from traceweave.explorer.explorer import Explorer, explore
from traceweave.explorer.views import NEVER, Stretch
from traceweave.store.empty import create_tables

T0 = 1_700_000_000_000_000_000


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, whose clocks are 500 ns apart, with operations to count by hand."""
    path = tmp_path_factory.mktemp("explorer") / "run.duckdb"
    with duckdb.connect(path) as con:
        create_tables(con)
        con.execute(
            f"""
            INSERT INTO base.rank_sources BY NAME
            SELECT r AS rank, r AS source_id, 'trace' AS rank_source, 'kineto' AS format,
                {T0} + 500 * r AS first_local_ns, {T0} + 500 * r + 100 AS last_local_ns
            FROM range(2) AS t(r);
            INSERT INTO clocks BY NAME
            SELECT r AS rank, 0 AS reference_rank, -500 * r AS offset_ns, 0 AS drift_ppm,
                0 AS reference_local_ns, 1 AS anchors, 'ends' AS method, 'aligned' AS status
            FROM range(2) AS t(r);
            INSERT INTO base.gpu_ops BY NAME
            SELECT r AS rank, r * 1000000000 + n AS op_id, r AS source_id, 'kernel' AS kind,
                category, 'gemm' AS class, name, 0 AS device, stream,
                {T0} + 500 * r + begins AS start_local_ns, length AS duration_ns
            FROM range(2) AS t(r), (VALUES
                (0, 'compute', 'first', 7, 0, 3), (1, 'compute', 'across', 7, 6, 4),
                (2, 'communication', 'long', 20, 5, 25), (3, 'compute', 'nothing', 7, 12, 0)
            ) AS ops(n, category, name, stream, begins, length);
            """
        )
    return path


def _lanes(explorer: Explorer, first: int, last: int, blocks: int) -> dict[str, object]:
    ranks = list(explorer.run.ranks)
    with explorer.run.asking() as asking:
        return decode(explorer.lanes(asking, Stretch(first, last, blocks), ranks, True))


def _blocks(explorer: Explorer, first: int, last: int, shift: int) -> set[tuple[int, ...]]:
    bounds = explorer.run.bounds([0, 1], first, last)
    with explorer.run.asking() as asking:
        asking.do("hits", **bounds, named_ns=NEVER, least_ns=0)
        rows = asking.rows("fine_blocks", **bounds, shift=shift)
    return {tuple(row.values()) for row in rows}


def test_blocks_by_hand(by_hand: Path) -> None:
    with explore(by_hand) as explorer:
        assert explorer.run.origin_ns == T0
        assert [(lane.rank, lane.stream, lane.label) for lane in explorer.run.lanes] == [
            (rank, *which) for rank in (0, 1) for which in ((7, "compute"), (20, "communication"))
        ]
        # lane, category, block of 8 ns, busy ns, operations that begin there
        rank_0 = {(0, 0, 0, 5, 2), (0, 0, 1, 2, 1)} | {
            (1, 1, 0, 3, 1), (1, 1, 1, 8, 0), (1, 1, 2, 8, 0), (1, 1, 3, 6, 0)
        }  # fmt: skip
        rank_1 = {(lane + 2, *rest) for lane, *rest in rank_0}
        assert _blocks(explorer, 0, 100, 3) == rank_0 | rank_1
        # a part of it: what lies outside does not count, nor do blocks there exist
        assert _blocks(explorer, 8, 16, 3) == {row for row in rank_0 | rank_1 if row[2] == 1}


def test_few_operations_stand_alone_with_exact_times(by_hand: Path) -> None:
    with explore(by_hand) as explorer:
        found = _lanes(explorer, 0, 100, 1000)
    assert len(found["block_lane"]) == 0
    names = [found["names"][i] for i in found["name"]]
    drawn = list(zip(found["lane"], names, found["start_ns"], found["duration_ns"], strict=True))
    rank_0 = [
        (0, "first", 0, 3), (0, "across", 6, 4), (0, "nothing", 12, 0), (1, "long", 5, 25)
    ]  # fmt: skip
    assert drawn == [*rank_0, *((lane + 2, *rest) for lane, *rest in rank_0)]
    assert found["op_id"].tolist()[-1] == 1_000_000_002


def test_levels_conserve_the_time_of_every_lane(explorer: Explorer) -> None:
    with explorer.run.cursor() as con:
        truth = con.execute(
            "SELECT rank, stream, category, sum(duration_ns)::BIGINT, count(*) FROM base.gpu_ops"
            " GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        levels = con.execute("SELECT DISTINCT shift FROM memory.explorer.levels").fetchall()
        assert len(levels) == 4
        for (shift,) in levels:
            found = con.execute(
                "SELECT rank, stream,"
                " ['compute', 'communication', 'memory'][v.category + 1] AS category,"
                " sum(v.busy_ns)::BIGINT, sum(v.ops)::BIGINT"
                " FROM memory.explorer.levels AS v JOIN memory.explorer.lanes USING (lane)"
                " WHERE shift = ? GROUP BY ALL ORDER BY ALL",
                [shift],
            ).fetchall()
            assert found == truth


def test_a_level_and_the_operations_give_the_same_blocks(explorer: Explorer) -> None:
    shift = explorer.levels.shift + 4
    bounds = explorer.run.bounds(explorer.run.ranks, 0, explorer.run.span_ns)
    level = explorer.levels.level(shift)
    assert level == (explorer.levels.shift + 3, 1)
    with explorer.run.asking() as asking:
        asking.do("hits", **bounds, named_ns=NEVER, least_ns=0)
        fine = asking.table("fine_blocks", **bounds, shift=shift)
        coarse = asking.table("coarse_blocks", **bounds, shift=level[0], by=level[1])
    order = [("lane", "ascending"), ("category", "ascending"), ("block", "ascending")]
    assert coarse.sort_by(order).to_pylist() == fine.sort_by(order).to_pylist()


@nightly
@settings(max_examples=30)
@given(st.data())
def test_blocks_of_any_stretch_are_those_of_its_operations(
    explorer: Explorer, data: st.DataObject
) -> None:
    """A loop over every operation of one rank, against SQL."""
    first = data.draw(st.integers(0, explorer.run.span_ns - 2))
    last = data.draw(st.integers(first + 1, explorer.run.span_ns))
    shift = data.draw(st.integers(max((last - first).bit_length() - 8, 0), 40))
    bounds = explorer.run.bounds([1], first, last)
    with explorer.run.asking() as asking:
        everything = explorer.run.bounds([1], 0, explorer.run.span_ns + 1)
        asking.do("hits", **everything, named_ns=0, least_ns=0)
        ops = asking.table("hits_alone", least_ns=0, most=1_000_000)
        asking.do("hits", **bounds, named_ns=NEVER, least_ns=0)
        found = asking.rows("fine_blocks", **bounds, shift=shift)
    busy: dict[tuple[int, int], int] = {}
    for lane, start, length in zip(
        ops["lane"].to_pylist(), ops["start_ns"].to_pylist(), ops["duration_ns"].to_pylist(),
        strict=True,
    ):  # fmt: skip
        if start >= last or (start + length <= first and start < first):
            continue
        low = max(start >> shift, first >> shift)
        high = min(max(start, start + length - 1) >> shift, (last - 1) >> shift)
        for block in range(low, high + 1):
            until = min(start + length, (block + 1) << shift)
            key = (lane, block)
            busy[key] = busy.get(key, 0) + until - max(start, block << shift)
    summed: dict[tuple[int, int], int] = {}
    for row in found:
        key = (row["lane"], row["block"])
        summed[key] = summed.get(key, 0) + row["busy_ns"]
    assert summed == busy


def test_long_operations_stand_alone_where_others_are_blocks(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "FEW_OPS", 10)
    found = _lanes(explorer, 0, explorer.run.span_ns, 1000)
    block_ns = found["block_ns"]
    assert len(found["block_lane"]) > 0
    assert (found["duration_ns"] >= 3 * block_ns).all()
    with explorer.run.cursor() as con:
        ((long,),) = con.execute(
            "SELECT count(*) FROM base.gpu_ops WHERE duration_ns >= ?", [3 * block_ns]
        ).fetchall()
        ((busy,),) = con.execute("SELECT sum(duration_ns)::BIGINT FROM base.gpu_ops").fetchall()
    assert len(found["lane"]) == long > 0
    assert np.isclose(found["block_busy"].sum() * block_ns, busy, rtol=1e-5)


@pytest.mark.parametrize("few", [0, 12_000])
def test_operations_have_their_names_however_many_were_expected(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr(views, "FEW_OPS", few)
    length = explorer.run.span_ns // 400
    answers = []
    for named_from in (lambda *_: 0, lambda _, alone: alone, lambda *_: NEVER):
        monkeypatch.setattr(views, "_named_from", named_from)
        found = _lanes(explorer, 100 * length, 101 * length, 4_000)
        drawn = zip(found["op_id"], found["start_ns"], found["name"], strict=True)
        blocks = zip(found["block_lane"], found["block_at"], found["block_busy"], strict=True)
        names = found["names"]
        answers.append(({(op, at, names[name]) for op, at, name in drawn}, {*blocks}))
    assert answers[0][0]
    assert answers[0] == answers[1] == answers[2]


def test_operations_are_where_the_public_view_has_them(explorer: Explorer) -> None:
    found = _lanes(explorer, 0, explorer.run.span_ns + 1, 1000)
    with explorer.run.cursor() as con:
        rows = con.execute(
            "SELECT op_id, start_ns - ?, duration_ns FROM gpu_ops", [explorer.run.origin_ns]
        ).fetchall()
    drawn = zip(found["op_id"], found["start_ns"], found["duration_ns"], strict=True)
    assert sorted(drawn) == sorted(rows)
    assert found["pending"] == []


def test_waits_of_collectives_are_those_of_the_public_view(explorer: Explorer) -> None:
    found = _lanes(explorer, 0, explorer.run.span_ns + 1, 1000)
    drawn = {
        int(op): wait
        for op, wait, category in zip(
            found["op_id"], found["wait_ns"], found["category"], strict=True
        )
        if category == 1
    }
    with explorer.run.cursor() as con:
        rows = con.execute(
            "SELECT gpu_op_id, greatest(least(w.wait_ns, k.duration_ns), 0) FROM collectives AS k"
            " JOIN collective_waits AS w USING (collective_id, rank)"
        ).fetchall()
    assert len(rows) > 50
    assert drawn == dict(rows)


def test_threads_nest_and_lose_no_operation(explorer: Explorer) -> None:
    with explorer.run.asking() as asking:
        threads = explorer.threads(asking, 2)
        found = decode(explorer.host(asking, Stretch(0, explorer.run.span_ns + 1, 1000), 2))
    with explorer.run.cursor() as con:
        rows = con.execute(
            "SELECT op_id, start_ns - ?, depth FROM host_ops WHERE rank = 2",
            [explorer.run.origin_ns],
        ).fetchall()
    assert sum(thread["ops"] for thread in threads) == len(rows)
    drawn = len(found["op_id"]) + int(found["block_ops"].sum())
    assert drawn == len(rows)
    known = {op: (start, depth) for op, start, depth in rows}
    for op, start, depth in zip(found["op_id"], found["start_ns"], found["depth"], strict=True):
        assert known[int(op)] == (start, depth)


def test_the_whole_run_is_the_mean_of_its_ranks(explorer: Explorer) -> None:
    with explorer.run.asking() as asking:
        found = decode(explorer.whole(asking, 200))
    with explorer.run.cursor() as con:
        rows = con.execute("SELECT sum(duration_ns)::BIGINT FROM base.gpu_ops").fetchall()
    mean = found["busy"].sum() * found["block_ns"]
    assert np.isclose(mean * len(explorer.run.ranks), rows[0][0])


def test_a_rank_that_is_not_there_is_named(explorer: Explorer) -> None:
    with explorer.run.asking() as asking, pytest.raises(UsageError, match="this run has no rank 9"):
        explorer.lanes(asking, Stretch(0, 1, 1), [0, 9], True)


def test_a_run_without_a_gpu_shows_what_device_ops_has(fixtures: Path, database_of: object) -> None:
    path = database_of(fixtures / "ddp_gloo_straggler")  # type: ignore[operator]
    with explore(path) as explorer:
        explorer.levels.wait()
        found = _lanes(explorer, 0, explorer.run.span_ns + 1, 1000)
        with explorer.run.cursor() as con:
            truth = con.execute(
                "SELECT count(*), sum(duration_ns)::BIGINT FROM device_ops"
            ).fetchall()
            levels = con.execute(
                "SELECT sum(ops)::BIGINT, sum(busy_ns)::BIGINT FROM memory.explorer.levels"
                f" WHERE shift = {explorer.levels.shift}"
            ).fetchall()
        assert explorer.run.timeline == "cpu"
        assert levels == truth
        assert found["block_ops"].sum() == truth[0][0]


@nightly
def test_a_run_folder_is_shown_as_its_file_is(fixtures: Path, once: MakeOnce) -> None:
    traces = fixtures / "ddp_gloo_straggler"

    def write(path: Path) -> None:
        assert traceweave.ingest(traces, path).ok

    answers = []
    for ending in (".duckdb", ".tw"):
        with explore(once("explored", ending, write)) as explorer:
            explorer.levels.wait()
            found = _lanes(explorer, 0, explorer.run.span_ns + 1, 500)
            answers.append(sorted(zip(found["op_id"], found["start_ns"], strict=True)))
            assert found["block_ops"].sum() > 1_000
    assert answers[0] == answers[1]


def test_a_run_of_nothing_is_shown_as_that(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    with duckdb.connect(path) as con:
        create_tables(con)
    with explore(path) as explorer, explorer.run.asking() as asking:
        overview = explorer.overview
        assert (overview["ranks"], overview["lanes"], overview["steps"]) == ([], [], [])
        assert len(decode(explorer.whole(asking, 100))["block"]) == 0


@nightly
def test_an_answer_waits_for_levels_that_are_being_made(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first view is there in the first answer; without waiting a page would ask in vain."""
    monkeypatch.setattr(levels, "OPS_AT_ONCE", 1)
    monkeypatch.setattr(levels, "PATIENCE_S", 60)
    with explore(gpu_run) as explorer:
        found = _lanes(explorer, 0, explorer.run.span_ns + 1, 1000)
        assert found["pending"] == []
        assert len(found["block_lane"]) + len(found["lane"]) > 1_000


def test_ranks_that_are_not_ready_are_named(gpu_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "PATIENCE_S", 0)
    monkeypatch.setattr(levels.Levels, "_make_level", lambda *_: time.sleep(1))
    with explore(gpu_run) as explorer:
        found = _lanes(explorer, 0, explorer.run.span_ns + 1, 1000)
        assert found["pending"] == [0, 1, 2, 3]
        assert len(found["block_lane"]) == len(found["lane"]) == 0


def _before_levels(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[bool, list[int]], object]
) -> None:
    """Call `wait` before a level is made: with whether it is the finest, and of which ranks."""
    make = levels.Levels._make_level

    def held(self: levels.Levels, asking: Asking, shift: int, ranks: list[int]) -> None:
        wait(shift == self.shift, ranks)
        make(self, asking, shift, ranks)

    monkeypatch.setattr(levels.Levels, "_make_level", held)


def test_the_first_answer_waits_for_the_first_ranks_only(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is opened draws what is there; then it has the patience to wait for the rest."""
    monkeypatch.setattr(levels, "OPS_AT_ONCE", 1)
    monkeypatch.setattr(levels, "PATIENCE_S", 60)
    released = Event()
    _before_levels(monkeypatch, lambda _, ranks: ranks == [0] or released.wait(60))
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        wanted = Stretch(0, explorer.run.span_ns + 1, 1000)

        def pending(patient: bool) -> object:
            return decode(explorer.lanes(asking, wanted, [0, 1, 2, 3], patient))["pending"]

        first = pending(patient=False)
        released.set()
        assert (first, pending(patient=True)) == ([1, 2, 3], [])


@nightly
def test_what_later_views_need_is_made_when_no_view_was_asked_for_in_a_while(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is zoomed draws with the same cores."""
    monkeypatch.setattr(levels, "QUIET_S", 60)
    begun, asked = Event(), Event()
    _before_levels(monkeypatch, lambda *_: (begun.set(), asked.wait(60)))
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        made = explorer.levels
        assert begun.wait(60)
        explorer.lanes(asking, Stretch(0, 1_000_000, 1000), [0], patient=False)
        asked.set()
        made.ready(asking, made.first, [0, 1, 2, 3], patient=True)
        time.sleep(0.2)
        assert not made.finished
        monkeypatch.setattr(levels, "QUIET_S", 0)
        made.wait()
        assert made.error is None
        assert made.ready(asking, made.shift, [0, 1, 2, 3]) == [0, 1, 2, 3]


@nightly
def test_who_waits_for_what_is_sharp_does_not_put_it_off(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page asks again and again while what it shows is blurred."""
    monkeypatch.setattr(views, "FEW_OPS", 0)
    monkeypatch.setattr(levels, "QUIET_S", 0.5)
    monkeypatch.setattr(levels, "PATIENCE_S", 0.05)
    asked = Event()
    _before_levels(monkeypatch, lambda *_: asked.wait(60))
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        length = explorer.run.span_ns // 8
        wanted = Stretch(0, length, length >> explorer.levels.shift)
        explorer.lanes(asking, wanted, [0, 1, 2, 3], patient=False)
        asked.set()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            found = decode(explorer.lanes(asking, wanted, [0, 1, 2, 3], patient=True))
            if not (found["blurred"] or found["pending"]):
                return
    raise AssertionError("it stayed blurred")


def test_levels_of_some_ranks_are_those_of_all(
    gpu_run: Path, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def everything(one: Explorer) -> list[tuple[object, ...]]:
        with one.run.cursor() as con:
            return con.execute("FROM memory.explorer.levels ORDER BY ALL").fetchall()

    monkeypatch.setattr(levels, "OPS_AT_ONCE", 1)
    with explore(gpu_run) as rank_by_rank:
        rank_by_rank.levels.wait()
        assert rank_by_rank.levels.error is None
        assert everything(rank_by_rank) == everything(explorer)


@nightly
def test_a_view_is_blurred_while_its_level_is_made(
    gpu_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same time of every lane in longer blocks, at once; patience brings what is sharp."""
    monkeypatch.setattr(views, "FEW_OPS", 0)
    monkeypatch.setattr(levels, "PATIENCE_S", 60)
    released = Event()
    _before_levels(monkeypatch, lambda finest, _: not finest or released.wait(60))
    with explore(gpu_run) as explorer, explorer.run.asking() as asking:
        explorer.levels.ready(asking, explorer.levels.first, [0, 1, 2, 3], patient=True)
        length = explorer.run.span_ns // 8
        wanted = Stretch(0, length, length >> explorer.levels.shift)

        def view(patient: bool) -> dict[str, object]:
            return decode(explorer.lanes(asking, wanted, [0, 1, 2, 3], patient))

        blurred = view(patient=False)
        released.set()
        explorer.levels.wait()
        sharp = view(patient=True)
    assert (blurred["blurred"], sharp["blurred"]) == (True, False)
    assert blurred["block_ns"] == 8 * sharp["block_ns"] / 2
    assert blurred["pending"] == sharp["pending"] == []
