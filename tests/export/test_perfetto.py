"""The Perfetto trace: everything that the database has is in it, once, and nothing gets lost."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from duckdb import DuckDBPyConnection as Connection

import traceweave
from tests.cases import cases
from tests.conftest import Recorded
from tests.export.reading import Timeline, read
from tests.marks import first_at_once, nightly
from tests.simulated_runs import SKEWED
from traceweave.errors import InputError, TraceweaveError
from traceweave.export import Selection, packets, perfetto, write_perfetto
from traceweave_simulator import Config

EVERYTHING = """
    SELECT op_id, rank, start_ns, end_ns, name, category FROM gpu_ops
    UNION ALL SELECT op_id, rank, start_ns, end_ns, name, kind FROM host_ops
    UNION ALL SELECT op_id, rank, start_ns, end_ns, name, category FROM other_events
    WHERE phase <> 'M' AND start_ns IS NOT NULL AND end_ns IS NOT NULL
"""


@pytest.fixture
def simulated(simulated_database: Callable[[Config], Path]) -> Path:
    return simulated_database(SKEWED)


@pytest.fixture(scope="module")
def exported(
    simulated_database: Callable[[Config], Path], tmp_path_factory: pytest.TempPathFactory
) -> Timeline:
    """All of the simulated run."""
    with traceweave.open(simulated_database(SKEWED)) as run:
        return export(run, tmp_path_factory.mktemp("exported"))


def export(run: traceweave.Run, tmp_path: Path, selection: Selection | None = None) -> Timeline:
    written = write_perfetto(run.con, tmp_path / "run.pftrace", selection)
    timeline = read(written.path)
    assert written.slices == len(timeline.slices)
    assert written.samples == sum(map(len, timeline.samples.values()))
    assert written.size_bytes == written.path.stat().st_size
    used = {s.track for s in timeline.slices} | set(timeline.samples)
    assert written.tracks == len(used), "a track without events"
    return timeline


def check_everything(run: traceweave.Run, timeline: Timeline) -> None:
    """Compare the trace with the whole database."""
    expected = {row[0]: row[1:] for row in run.con.execute(EVERYTHING).fetchall()}
    found = {
        op: (timeline.rank(s.track), s.start, s.end, s.name, s.category)
        for op, s in timeline.by_op().items()
    }
    no_rank = {op: row for op, row in expected.items() if row[0] is None}
    assert {op: row[1:] for op, row in found.items() if op in no_rank} == {
        op: row[1:] for op, row in no_rank.items()
    }
    assert {op: row for op, row in found.items() if op not in no_rank} == {
        op: row for op, row in expected.items() if op not in no_rank
    }
    steps = run.con.execute(
        "SELECT rank, 'steps', step, start_ns, end_ns FROM steps"
        " UNION ALL SELECT rank, 'steps on the GPU', step, device_start_ns, device_end_ns"
        " FROM steps WHERE device_end_ns IS NOT NULL"
    ).fetchall()
    assert sorted(steps) == sorted(
        (timeline.rank(s.track), timeline.path(s.track)[1], s.notes["step"], s.start, s.end)
        for s in timeline.slices
        if "op_id" not in s.notes
    )
    check_arrows(run, timeline)


def check_arrows(run: traceweave.Run, timeline: Timeline) -> None:
    """Every collective's arrow passes all its ranks; every launch's arrow ends at its GPU ops."""
    instances: dict[int, set[int]] = defaultdict(set)
    launches: dict[int, set[int]] = defaultdict(set)
    for s in timeline.slices:
        for flow in s.flows:
            if flow < packets.LAUNCH_FLOW:
                instances[flow].add(timeline.rank(s.track))
            else:
                launches[flow - packets.LAUNCH_FLOW].add(int(s.notes["op_id"]))
    assert instances == {
        row[0]: set(row[1])
        for row in run.con.execute(
            "SELECT collective_id, list(DISTINCT rank) FROM collectives"
            " WHERE collective_id IS NOT NULL GROUP BY ALL"
        ).fetchall()
    }
    assert launches == {
        row[0]: {row[0], *row[1]}
        for row in run.con.execute(
            "SELECT launch_op_id, list(g.op_id) FROM gpu_ops AS g"
            " JOIN host_ops AS h ON h.op_id = g.launch_op_id AND h.rank = g.rank GROUP BY ALL"
        ).fetchall()
    }


@pytest.mark.parametrize("name", ["ddp_gloo_straggler", "ddp_gloo_nsys"])
@nightly
def test_all_of_a_recorded_run_is_in_the_trace(
    recorded: Recorded, tmp_path: Path, name: str
) -> None:
    run = recorded(name)
    check_everything(run, export(run, tmp_path))


@nightly
@pytest.mark.parametrize("name", ["kineto/megatron_tp8", "kineto/ep_moe_b200_seq"])
def test_all_of_a_real_run_is_in_the_trace(recorded: Recorded, tmp_path: Path, name: str) -> None:
    run = recorded(name)
    check_everything(run, export(run, tmp_path))


@nightly
def test_all_of_two_ranks_in_one_nsys_report_is_in_the_trace(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    [report] = (corpus / "nsys").glob("fsdp_2rank_before*")
    with traceweave.open(database_of(report)) as run:
        check_everything(run, export(run, tmp_path))


@nightly
def test_collectives_of_skewed_clocks_end_together(simulated: Path, exported: Timeline) -> None:
    with traceweave.open(simulated) as run:
        check_everything(run, exported)
        raw = run.con.execute(
            "SELECT median(spread_ns) FROM (SELECT max(start_local_ns + duration_ns)"
            " - min(start_local_ns + duration_ns) AS spread_ns FROM collectives"
            " WHERE collective_id IS NOT NULL GROUP BY collective_id)"
        ).fetchall()[0][0]
        residual = run.con.execute("SELECT max(residual_p95_ns) FROM clocks").fetchall()[0][0]
    ends: dict[int, list[int]] = defaultdict(list)
    for s in exported.slices:
        if "collective_id" in s.notes:
            ends[int(s.notes["collective_id"])].append(s.end)
    spreads = sorted(max(at) - min(at) for at in ends.values())

    assert len(spreads) == 12
    assert raw > 10_000_000
    # two ranks, each within the residual
    assert spreads[len(spreads) // 2] <= 2 * residual < 100_000


def test_ranks_are_processes_and_streams_and_threads_named_tracks(exported: Timeline) -> None:
    processes = [t for t in exported.tracks.values() if t.HasField("process")]
    assert [(p.process.pid, p.sibling_order_rank) for p in processes] == [(r, r) for r in range(4)]
    assert processes[2].process.process_name.startswith("rank 2 (")
    assert exported.tracks[0].process_ordering == 1
    tracks = [t for t in exported.tracks.values() if t.parent_uuid == processes[0].uuid]
    ordered = [t.name for t in sorted(tracks, key=lambda t: t.sibling_order_rank)]
    assert ordered[:4] == ["steps", "steps on the GPU", "stream 7 (compute)", "stream 20 (NCCL)"]
    assert any(name.endswith("(main)") for name in ordered)


# ---------------------------------------------------------------------------- by hand

ROWS = Path(__file__).with_name("handmade.sql").read_text(encoding="utf-8")


@pytest.fixture
def small(empty_run: Connection) -> Connection:
    empty_run.execute(ROWS)
    return empty_run


def written(con: Connection, path: Path, **selection: object) -> Timeline:
    return read(write_perfetto(con, path / "t.pftrace", Selection(**selection)).path)  # type: ignore[arg-type]


def test_slices_that_overlap_partly_get_a_lane_each(small: Connection, tmp_path: Path) -> None:
    timeline = written(small, tmp_path)

    found = {
        (timeline.path(s.track)[1], s.name, s.start, s.end, s.depth)
        for s in timeline.slices
        if s.category in ("compute", "communication", "runtime")
    }
    assert found == {
        ("stream 7 (compute)", "a", 1000, 1100, 0),
        ("stream 7 (compute) (2)", "b", 1090, 1190, 0),
        ("stream 7 (compute)", "c", 1190, 1190, 0),
        ("stream 20 (NCCL)", "all <b>é", 1200, 1250, 0),
        ("thread 100 (main)", "cudaLaunchKernel", 900, 920, 0),
        ("thread 100 (main) (2)", "over", 910, 940, 0),
    }
    assert {timeline.path(s.track)[0] for s in timeline.slices} == {"rank 0 (node-a, H100)"}


def test_a_launch_is_joined_with_its_op_and_says_how_long_it_took(
    small: Connection, tmp_path: Path
) -> None:
    ops = written(small, tmp_path).by_op()
    arrow = packets.LAUNCH_FLOW + 11
    assert {op: s.flows for op, s in ops.items() if s.flows} == {1: (arrow,), 11: (arrow,)}
    assert ops[1].notes == {"op_id": 1, "step": 0, "launch_delay_ns": 100}


def test_a_kernel_that_carries_several_collectives_is_on_the_arrows_of_all(
    small: Connection, tmp_path: Path
) -> None:
    small.execute(
        "INSERT INTO base.collective_calls BY NAME SELECT call_id, 0 AS rank, 0 AS source_id,"
        " 4 AS gpu_op_id, 'all_reduce' AS op, 'Float' AS dtype, 1000 * call_id AS bytes,"
        " 1200 AS start_local_ns, 50 AS duration_ns, 'metadata' AS evidence"
        " FROM (VALUES (1), (2), (3)) AS v (call_id);"
        "INSERT INTO base.matches VALUES (1, 5, 70, 'seq'), (2, 5, 71, 'seq'),"
        " (3, 5, NULL, 'unmatched');"
        "INSERT INTO groups BY NAME SELECT 5 AS group_id, '0' AS name, 'default_pg' AS description,"
        " 2 AS size, [0, 1] AS ranks, 'world' AS role, '' AS role_source"
    )
    op = written(small, tmp_path).by_op()[4]

    assert op.flows == (70, 71)
    assert op.notes == {
        "op_id": 4, "step": 1, "bytes": 6000, "collective_id": 70, "op": "all_reduce",
        "group": "default_pg", "dtype": "Float", "match": "seq", "wait_ns": 0, "last_rank": 0,
    }  # fmt: skip


def test_collectives_say_how_long_they_waited_and_for_whom(
    simulated: Path, exported: Timeline
) -> None:
    names = ("collective_id", "op", "bytes", "wait_ns", "last_rank")
    with traceweave.open(simulated) as run:
        expected = run.con.execute(
            "SELECT k.gpu_op_id, k.collective_id, k.op, k.bytes, w.wait_ns, w.last_rank"
            " FROM collectives AS k JOIN collective_waits AS w USING (collective_id, rank)"
        ).fetchall()

    assert any(row[4] > 0 for row in expected)
    assert sorted(expected) == sorted(
        (op, *(s.notes[name] for name in names))
        for op, s in exported.by_op().items()
        if "collective_id" in s.notes
    )


def test_counters_and_allocator_totals_are_counter_tracks(
    small: Connection, tmp_path: Path
) -> None:
    timeline = written(small, tmp_path)

    found = {
        (timeline.path(track)[1], timeline.tracks[track].counter.unit_name): samples
        for track, samples in timeline.samples.items()
    }
    assert found == {
        ("power GPU 0", "W"): [(1000, 350.5), (1200, 351.5)],
        ("allocated memory cuda:0", ""): [(1100, 4096.0)],
    }
    [memory] = [t for t in timeline.tracks.values() if t.name.startswith("allocated")]
    assert memory.counter.unit == memory.counter.UNIT_SIZE_BYTES


@first_at_once()
@cases
def test_a_selection_takes_part_of_the_run(
    small: Connection, tmp_path: Path, selection: dict[str, object], ops: set[int], samples: int
) -> None:
    timeline = written(small, tmp_path, **selection)
    assert set(timeline.by_op()) == ops
    assert sum(map(len, timeline.samples.values())) == samples
    whole = written(small, tmp_path).by_op()
    assert all(
        (s.start, s.end) == (whole[op].start, whole[op].end) for op, s in timeline.by_op().items()
    )


def test_memory_in_use_is_summed_where_the_trace_has_no_totals(
    small: Connection, tmp_path: Path
) -> None:
    small.execute("UPDATE base.memory_events SET total_allocated_bytes = NULL, value = 7")
    timeline = written(small, tmp_path)
    [samples] = [
        samples
        for track, samples in timeline.samples.items()
        if timeline.path(track)[1].startswith("allocated memory")
    ]
    assert samples == [(1100, 7.0)]


@nightly
def test_gaps_exposed_communication_and_the_critical_path_come_on_demand(
    simulated: Path, tmp_path: Path
) -> None:
    with traceweave.open(simulated) as run:
        timeline = export(run, tmp_path, Selection(gaps=True))
        gaps = list(run.gaps()[["start_ns", "end_ns", "cause"]].itertuples(index=False, name=None))
        breakdown = run.breakdown()
        path = run.critical_path().groupby("rank")["path_ns"].sum().to_dict()
        plain = export(run, tmp_path, Selection())

    assert not [s for s in plain.slices if s.category in ("critical path", "gap")]
    on_path: dict[int, int] = {}
    for s in timeline.slices:
        if s.category == "critical path":
            assert timeline.path(s.track)[1] == "critical path"
            rank = timeline.rank(s.track)
            on_path[rank] = on_path.get(rank, 0) + s.end - s.start
    assert on_path == path
    assert gaps
    assert sorted(
        (s.start, s.end, s.name) for s in timeline.slices if s.category == "gap"
    ) == sorted(gaps)
    columns = {
        "exposed communication per step": "exposed_comm_ns",
        "exposed waiting per step": "exposed_wait_ns",
        "exposed transfer per step": "exposed_transfer_ns",
        "exposed waiting or transfer per step": "exposed_unsplit_ns",
    }
    for track, samples in timeline.samples.items():
        mine = breakdown[breakdown["rank"] == timeline.rank(track)].sort_values("window_start_ns")
        values = mine[["window_start_ns", columns[timeline.path(track)[1]]]]
        assert samples == list(values.itertuples(index=False, name=None))
    assert len(timeline.samples) == 4 * len(columns)


@nightly
def test_parts_of_exposed_communication_add_up_where_they_are_not_told_apart(
    recorded: Recorded, tmp_path: Path
) -> None:
    timeline = export(recorded("pipeline_1f1b"), tmp_path, Selection(gaps=True))
    sums: dict[str, float] = defaultdict(float)
    for track, samples in timeline.samples.items():
        sums[timeline.path(track)[1]] += sum(value for _, value in samples)
    whole = sums.pop("exposed communication per step")
    assert whole == sum(sums.values()) == sums["exposed waiting or transfer per step"] > 3.7e9


@nightly
def test_small_batches_and_a_full_string_table_change_nothing(
    simulated: Path, exported: Timeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with traceweave.open(simulated) as run:
        monkeypatch.setattr(perfetto, "BATCH_ROWS", 64)
        monkeypatch.setattr(packets, "MOST_STRINGS", 20)
        timeline = export(run, tmp_path)
        check_everything(run, timeline)
    assert {op: s.notes for op, s in timeline.by_op().items()} == {
        op: s.notes for op, s in exported.by_op().items()
    }


def test_a_run_without_events_is_a_trace_without_tracks(
    empty_run: Connection, tmp_path: Path
) -> None:
    timeline = written(empty_run, tmp_path)
    assert (timeline.slices, list(timeline.tracks)) == ([], [0])


def left_behind(con: Connection) -> list[tuple[str]]:
    """The temporary tables that are there, but for those that analyses keep on purpose."""
    return con.execute(
        "SELECT table_name FROM duckdb_tables()"
        " WHERE temporary AND NOT starts_with(table_name, 'tw_')"
    ).fetchall()


@nightly
def test_no_temporary_table_stays(small: Connection, tmp_path: Path) -> None:
    written(small, tmp_path, gaps=True)
    assert left_behind(small) == []


def test_an_export_that_fails_leaves_the_old_file(
    small: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.pftrace").write_bytes(b"")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packets.PacketWriter, "slices", full)

    with pytest.raises(InputError, match=r"t\.pftrace: cannot be written: No space left on device"):
        written(small, tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["t.pftrace"]
    assert (tmp_path / "t.pftrace").read_bytes() == b""
    assert left_behind(small) == []


@pytest.mark.parametrize("name", ["missing/t.pftrace", "file/t.pftrace", "folder"])
def test_a_file_that_cannot_be_written_is_said(
    small: Connection, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(TraceweaveError, match=r"cannot be written|is a folder"):
        write_perfetto(small, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_events_that_are_no_ops_have_tracks_that_say_what_they_are(
    small: Connection, tmp_path: Path
) -> None:
    small.execute(
        "INSERT INTO base.other_events BY NAME SELECT 0 AS rank, 0 AS source_id, op_id, phase,"
        " category, name, tid, 1000 AS start_local_ns, duration_ns FROM (VALUES"
        " (41, 'X', 'gpu_user_annotation', 'forward', '7', 50),"
        " (42, 'X', 'trace', 'PyTorch Profiler (0)', 'PyTorch Profiler', 900),"
        " (43, 'i', NULL, 'Record Window End', '', 0),"
        " (44, 'X', 'overhead', 'Buffer Flush', '0', 5),"
        " (45, 'M', NULL, 'thread_name', '100', 0))"
        " AS v (op_id, phase, category, name, tid, duration_ns)"
    )
    timeline = written(small, tmp_path)

    assert {op: timeline.path(s.track)[1] for op, s in timeline.by_op().items() if op > 40} == {
        41: "annotations of stream 7", 42: "profiler", 43: "profiler", 44: "overhead 0",
    }  # fmt: skip


@nightly
def test_processes_without_a_rank_are_there_unless_ranks_are_chosen(
    small: Connection, tmp_path: Path
) -> None:
    small.execute(
        "INSERT INTO base.host_ops BY NAME SELECT NULL AS rank, 0 AS source_id, 'os' AS kind,"
        " 'wait' AS name, 9 AS pid, 9 AS tid, 950 AS start_local_ns, 5 AS duration_ns, 50 AS op_id"
    )

    lone = written(small, tmp_path).by_op()[50]
    assert (lone.start, lone.end, lone.category) == (950, 955, "os")
    timeline = written(small, tmp_path)
    assert timeline.path(timeline.by_op()[50].track) == (
        "processes without a rank",
        "process 9 thread 9 (main)",
    )
    assert 50 not in written(small, tmp_path, ranks=(0,)).by_op()


@nightly
def test_a_rank_whose_clock_is_not_fitted_says_so(small: Connection, tmp_path: Path) -> None:
    small.execute(
        "INSERT INTO base.rank_sources BY NAME SELECT * REPLACE (1 AS rank, 1 AS source_id)"
        " FROM base.rank_sources;"
        "INSERT INTO base.steps BY NAME SELECT * REPLACE (1 AS rank) FROM base.steps;"
        "INSERT INTO clocks VALUES (0, NULL, 0, 0, 0, 0, NULL, NULL, NULL, 0, '', 'wall clock'),"
        " (1, NULL, 0, 500, 0, 0, NULL, NULL, NULL, 9, '', 'aligned')"
    )
    timeline = written(small, tmp_path)

    assert {timeline.path(s.track)[0] for s in timeline.slices} == {
        "rank 0 (node-a, H100, clock: wall clock)",
        "rank 1 (node-a, H100)",
    }
    assert [s.start for s in timeline.on("steps", rank=1)] == [1400, 1650]
