"""A file that ends early: the step it ends in does not count for its ranks, and is said."""

import gzip
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.conftest import MakeOnce
from tests.marks import nightly
from traceweave.cli import main
from traceweave_simulator import Config, simulate, write_kineto

NOTE = (
    "rank 5: the file ends in step 3, seen only in part. This step is unknown, and in no time"
    " budget, cost or wait"
)


@pytest.fixture(scope="module")
def cut(corpus: Path, once: MakeOnce) -> Path:
    """megatron_tp8, whose rank 5 has 3.0 of 4.0 MB of its file."""

    def write(folder: Path) -> None:
        folder.mkdir()
        shutil.copytree(corpus / "kineto" / "megatron_tp8", folder / "traces")
        [path] = (p for p in (folder / "traces").iterdir() if "rank5" in p.name)
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        path.unlink()
        (folder / "traces" / "rank5.json").write_bytes(content[:3_000_000])
        result = traceweave.ingest(folder / "traces", folder / "cut.duckdb")
        assert result.recording == (NOTE,)

    return once("megatron_tp8 with a file cut", "", write) / "cut.duckdb"


@nightly
def test_the_cut_rank_makes_the_step_no_shorter(cut: Path) -> None:
    with traceweave.open(cut) as run:
        [step] = run.steps().to_dict("records")
        windows = run.breakdown().set_index(["rank", "step"])["window_ns"]
        measured = run.what_if("kind=launch times=0.5").iloc[0]["measured_step_ns"]
    of_step = windows[windows.index.get_level_values("step") == 3]
    assert (step["ranks"], len(of_step)) == (7, 7)
    # seven ranks take 595 to 631 ms; what is there of rank 5 are 373
    assert of_step.min() > 595_000_000
    assert step["length_ns"] == pytest.approx(of_step.mean(), abs=1)
    # on the common clock, whose drift is of ppm
    assert measured == pytest.approx(step["length_ns"], rel=1e-5)


@nightly
def test_compared_with_the_whole_run_it_is_no_faster(
    cut: Path, corpus: Path, database_of: Callable[..., Path]
) -> None:
    found = traceweave.compare(database_of(corpus / "kineto" / "megatron_tp8"), cut)
    assert found.verdict == "same"
    assert found.words[0].startswith(
        "Comparable with care: the file of rank 5 ends early in new (how much is missing"
    )
    # what rank 5 still has of the step is in no mean of seven
    gemm = {row["item"]: row["relative"] for row in found.table("classes").to_pylist()}["gemm"]
    assert abs(gemm) < 0.01


@nightly
def test_steps_before_the_cut_still_count(tmp_path: Path) -> None:
    traces = write_kineto(simulate(Config(ranks=2, steps=5, layers=4)), tmp_path / "traces")
    content = gzip.decompress(traces[1].read_bytes())
    traces[1].write_bytes(gzip.compress(content[: len(content) * 19 // 20]))
    result = traceweave.ingest(traces, tmp_path / "run.duckdb")
    [note] = result.recording
    with traceweave.open(tmp_path / "run.duckdb") as run:
        steps = run.steps()
    ranks = steps["ranks"].tolist()
    assert ranks[0] == 2
    assert ranks[-1] == 1
    assert sorted(ranks, reverse=True) == ranks
    assert note.startswith("rank 1: the file ends in step")


def test_of_a_rank_whose_only_step_is_cut_nothing_is_known(tmp_path: Path) -> None:
    """Its kernels come last in the file: 14 of 119 launches have none, which would be idle time."""
    traces = write_kineto(simulate(Config(ranks=1, steps=1, layers=4)), tmp_path / "traces")
    content = gzip.decompress(traces[0].read_bytes())
    traces[0].write_bytes(gzip.compress(content[: len(content) * 19 // 20]))
    cut, lost = traceweave.ingest(traces, tmp_path / "run.duckdb").recording
    assert cut == "rank 0: the file ends in step 1, the only one: nothing shows how long it was"
    assert lost.endswith("have no device record. The rank is unknown, left out of all numbers")


@nightly
def test_calls_that_match_nothing_are_said_loudly(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two of 128 ranks, and a run whose ranks share all their calls."""
    for trace, said in (("sampled_2of128", True), ("megatron_tp2", False)):
        output = str(tmp_path / f"{trace}.duckdb")
        assert main(["ingest", str(corpus / "kineto" / trace), "-o", output]) == 0
        warning = "WARNING: none of 20 collective calls could be matched over the ranks"
        assert (warning in capsys.readouterr().err) == said
