"""Real recordings, and cases built from public reports, with what is right of them."""

import gzip
from pathlib import Path

import orjson
import pytest

import traceweave
from tests.analyses.builders import only
from tests.marks import nightly

MS = 1e6


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
