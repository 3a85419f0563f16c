"""Real recordings, and cases built from public reports, with what is right of them."""

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

import traceweave
from tests.analyses.builders import only
from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly

Database = Callable[..., Path]
MS = 1e6


@contextmanager
def opened(corpus: Path, database_of: Database, name: str) -> Iterator[traceweave.Run]:
    with traceweave.open(database_of(corpus / name)) as run:
        yield run


STEPS = {
    # one batch of an engine, 24 layers; first kernel to last 156.35 ms, a copy comes before
    "kineto/vllm_step_mi300x": [(0, "engine", "mixed", 156.47)],
    "kineto/sglang_prefill_mi300x": [(0, "engine", "prefill", 987.29)],
    # two memsets of 11 us in a step that captures a graph
    "kineto/graph_capture_mi300x": [(134, "ProfilerStep", None, 33.717)],
    "kineto/tb_resnet50_torch1.9": [
        (step, "ProfilerStep", None, length)
        for step, length in zip(
            range(16, 22), (159.363, 149.046, 148.659, 151.733, 153.205, 155.725), strict=True
        )
    ],
    # torch 2's profiler counts ranges of the model; the fifth call is not known to be whole
    "kineto/resnet_hipfree_mi300x": [
        (0, "module", None, 115.1), (1, "module", None, 118.2),
        (2, "module", None, 1024.2), (3, "module", None, 1057.7),
    ],
}  # fmt: skip


@first_at_once()
@pytest.mark.parametrize("name", list(STEPS))
def test_steps_are_what_marks_them(recorded: Recorded, name: str) -> None:
    steps = recorded(name).steps()
    known = [
        (row["step"], row["source"], row["kind"] if isinstance(row["kind"], str) else None)
        for row in steps.to_dict("records")
    ]
    assert known == [(step, source, kind) for step, source, kind, _ in STEPS[name]]
    if name != "kineto/resnet_hipfree_mi300x":
        lengths = [length for *_, length in STEPS[name]]
        assert list(steps["length_ns"] / MS) == pytest.approx(lengths, rel=1e-3)


@nightly
def test_layers_are_no_steps_where_only_kernels_tell(corpus: Path, tmp_path: Path) -> None:
    """The same pass without its annotation and modules: an embedding precedes the layers."""
    [file] = (corpus / "kineto" / "vllm_step_mi300x").glob("*.json.gz")
    trace = orjson.loads(gzip.decompress(file.read_bytes()))
    trace["traceEvents"] = [
        event
        for event in trace["traceEvents"]
        if event.get("cat") not in ("user_annotation", "python_function")
    ]
    (tmp_path / "rank0.json").write_bytes(orjson.dumps(trace))
    traceweave.ingest(tmp_path / "rank0.json", tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        assert len(run.steps()) == 0
        assert run.health().set_index("answer")["value"]["recording"] == pytest.approx(156.5, abs=1)


@nightly
@pytest.mark.parametrize(
    ("name", "steps"), [("power_iteration__2025.3", 43), ("perlmutter_cloverleaf_mpi__2024.5", 4)]
)
def test_loops_in_which_the_host_waits_are_steps(recorded: Recorded, name: str, steps: int) -> None:
    run = recorded(f"nsys/{name}.sqlite")
    assert run.steps()["source"].tolist() == ["inferred"] * steps
    assert "inferred from kernels that repeat" in run.health().set_index("answer")["verdict"][
        "step time"
    ]  # fmt: skip


def _findings(run: traceweave.Run) -> dict[str, dict[str, object]]:
    return {row["rule"]: row for row in run.findings().to_dict("records")}


@nightly
def test_the_allocator_is_not_a_host_that_launches_late(recorded: Recorded) -> None:
    """1,360 hipFree take 3,346 of 3,391 ms; the last of five calls of the model is in no step."""
    run = recorded("kineto/resnet_hipfree_mi300x")
    found, first = _findings(run), run.fixes().iloc[1]
    assert first["rule"] == "allocator"
    assert first["scenario"] == "kind=allocator while=idle times=0"
    assert found["allocator"]["step_share"] > 0.8
    assert "launch_bound" not in found, "a host without the allocator gains less than min_share"


@nightly
def test_a_loader_without_workers_is_the_largest_cost(recorded: Recorded) -> None:
    found = recorded("kineto/tb_resnet50_torch1.9").findings()
    assert list(found["rule"])[:2] == ["data_bound", "launch_bound"]
    data, launch = found.iloc[0], found.iloc[1]
    # 47.2, 46.1, 46.0, 45.0, 44.3 ... ms in the loader, of which the GPU still works for some
    assert data["cost_ns"] == pytest.approx(32.57 * MS, rel=0.01)
    # 93.6 ms in six steps, and six gaps of 0.36 after waits of 0.04 to 0.09, which explain no more
    assert launch["bound_ns"] == pytest.approx(15.95 * MS, rel=0.01)
    assert launch["cost_ns"] < 18 * MS


@nightly
def test_a_gap_before_code_is_loaded_is_compilation(recorded: Recorded) -> None:
    run = recorded("nsys/fuser_jit__2025.1.sqlite")
    gaps = run.gaps().head(4)
    found = _findings(run)
    # 1,669 ms with a copy of 40 ms in it, 652, 566 and 271
    assert list(gaps["duration_ns"] / MS) == pytest.approx([1628.9, 651.9, 566.1, 270.9], abs=0.1)
    assert set(gaps["cause"]) == {"compilation"}
    assert "launch_bound" not in found
    assert found["compilation"]["severity"] == "critical"


@nightly
def test_what_waits_for_the_batch_before_blames_nobody(recorded: Recorded) -> None:
    run = recorded("kineto/sglang_prefill_mi300x")
    found = _findings(run)
    causes = run.idle_causes().query("step == 0").set_index("cause")["idle_ns"]
    assert causes["began_before"] == pytest.approx(493.2 * MS, rel=1e-3)
    assert "device_delay" not in found
    assert {row["severity"] for row in found.values()} == {"info"}


@first_at_once()
@cases
def test_gpu_work_without_records_is_no_compute_of_the_host(
    recorded: Recorded, name: str, said: str, kind: str
) -> None:
    run = recorded(f"kineto/{name}")
    assert len(run.breakdown()) == 0
    health = run.health().set_index("answer")
    assert "compute" not in health.index
    assert health["value"]["no GPU work"] == 1
    assert list(run.recording()["kind"]) == [kind]
    assert _findings(run)["nothing_to_measure"]["evidence"].startswith(said)
    notes = run.sql("SELECT message FROM ingest_issues WHERE kind = 'note'")["message"]
    assert any("nothing is known of its time" in note for note in notes)


def test_waiting_ends_when_the_last_rank_arrives(recorded: Recorded) -> None:
    """12.87 ms by arrivals on one clock; 25.5 by the shortest durations: ends spread by 126 us."""
    run = recorded("kineto/deepep8")
    waits = run.breakdown()["exposed_wait_ns"].mean()
    known = run.sql("SELECT sum(wait_ns) / 8 AS wait_ns FROM collective_waits")["wait_ns"][0]
    assert waits / MS == pytest.approx(12.87, rel=0.04)
    assert waits == pytest.approx(known, rel=0.01)


@nightly
def test_with_ranks_missing_waiting_is_not_told_from_transfer(recorded: Recorded) -> None:
    health = recorded("cases/subset").health().set_index("answer")
    assert health["value"]["exposed comm"] == pytest.approx(9.3 + 27.8, abs=0.5)
    assert "waiting or transfer" in health["verdict"]["exposed comm"]
    assert health["value"]["exposed transfer"] == 0


@nightly
def test_work_that_is_divided_unevenly_is_divided_not_removed(recorded: Recorded) -> None:
    run = recorded("cases/moe")
    straggler = _findings(run)["straggler"]
    fix = run.fixes().iloc[1]
    assert straggler["bound_ns"] == pytest.approx(19.40 * MS, rel=1e-3)
    assert straggler["cost_ns"] == pytest.approx(14.80 * MS, rel=1e-3)
    assert "By the split sizes of all_to_all, rank 3 gets 2.85 times" in straggler["evidence"]
    assert fix["step_ns"] == pytest.approx(21.74 * MS, rel=1e-3)


@nightly
@pytest.mark.parametrize("name", ["rocm71", "rocm72"])
def test_copies_are_copies_whoever_writes_them(recorded: Recorded, name: str) -> None:
    rows = recorded(f"cases/{name}").breakdown().query("step.notna()")
    assert rows["compute_ns"].mean() == 30 * MS
    assert rows["memory_ns"].mean() == 15 * MS


def test_a_step_range_that_matches_nothing_is_refused(fixtures: Path, tmp_path: Path) -> None:
    target = tmp_path / "run.duckdb"
    with pytest.raises(traceweave.UsageError, match=r"'nothing': matches no annotation .*backward"):
        traceweave.ingest(fixtures / "ddp_gloo_4ranks", target, step_range="nothing")
    assert not target.exists()


def test_step_ranges_of_a_part_of_the_loop_are_not_its_length(corpus: Path, tmp_path: Path) -> None:
    """The ranges last 565 us, and begin every 40.7 ms; others launch nothing at all."""
    report = corpus / "nsys/power_iteration__2025.3.sqlite"
    target = tmp_path / "run.duckdb"
    traceweave.ingest(report, target, step_range=r"Compute & Residual (\d+)")
    with traceweave.open(target) as run:
        assert run.steps()["length_ns"].mean() == pytest.approx(40.3 * MS, rel=0.01)
        assert run.what_if("kind=sync times=0")["gain_ns"].iloc[0] == pytest.approx(
            14.3 * MS, rel=0.01
        )
    with pytest.raises(traceweave.UsageError, match=r"ranges like 'IO 0' launch nothing"):
        traceweave.ingest(report, tmp_path / "other.duckdb", step_range=r"IO (\d+)")


def test_a_report_that_is_cut_is_to_be_copied_not_recorded_otherwise(
    corpus: Path, tmp_path: Path
) -> None:
    """Its kernels lie beyond the cut: it is not that CUDA was not recorded."""
    cut = tmp_path / "cut.sqlite"
    cut.write_bytes((corpus / "nsys/jacobi__2023.4.sqlite").read_bytes()[:600_000])
    traceweave.ingest(cut, tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run, only("nothing_to_measure"):
        findings = run.findings().set_index("rule")
        assert run.recording()["kind"].tolist() == ["nothing left"]
    assert "cut or damaged" in findings["advice"]["nothing_to_measure"]


def test_of_two_mpi_ranks_the_one_that_computes_longer_is_named(
    fixtures: Path, tmp_path: Path
) -> None:
    """Rank 1 computes 5 ms longer in each of 4 steps: too few for more than 'maybe'."""
    for rank in (0, 1):
        packed = fixtures / f"mpi_nsys/per_rank__2023.4_rank{rank}.sqlite.gz"
        (tmp_path / f"r_rank{rank}.sqlite").write_bytes(gzip.decompress(packed.read_bytes()))
    traceweave.ingest(sorted(tmp_path.glob("*.sqlite")), tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        findings = run.findings().set_index("rule")
    assert findings["title"]["imbalance"] == "Ranks wait, most for rank 1, maybe by chance"
    assert "they are in 'compute'" in findings["evidence"]["host_pauses"]
    # there are no operators, and nothing to replay
    assert findings["scenario"].isna().all()
