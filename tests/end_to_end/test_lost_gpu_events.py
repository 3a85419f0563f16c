"""A rank whose GPU events were lost: told everywhere, and in no mean."""

import gzip
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

import traceweave
from tests.conftest import MakeOnce
from tests.marks import nightly
from traceweave_simulator import Config, simulate, write_kineto

ON_THE_GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
NOTE = (
    "rank 1 launched GPU work (732 calls) of which no record is there, so that nothing is known of"
    " its time; profile CUDA activity, with no other profiler at the same time"
)


class Runs(NamedTuple):
    whole: Path
    cut: Path


@pytest.fixture(scope="module")
def runs(once: MakeOnce) -> Runs:
    """A run of three ranks, whole, and with the GPU events of rank 1 left out of its file."""

    def write(folder: Path) -> None:
        folder.mkdir()
        traces = write_kineto(simulate(Config(ranks=3, steps=6, layers=4)), folder / "traces")
        assert traceweave.ingest(traces, folder / "whole.duckdb").notes == ()
        trace = orjson.loads(gzip.decompress(traces[1].read_bytes()))
        trace["traceEvents"] = [e for e in trace["traceEvents"] if e.get("cat") not in ON_THE_GPU]
        traces[1].write_bytes(gzip.compress(orjson.dumps(trace)))
        assert traceweave.ingest(traces, folder / "cut.duckdb").notes == (NOTE,)

    folder = once("a run of three ranks, and without the GPU events of one", "", write)
    return Runs(folder / "whole.duckdb", folder / "cut.duckdb")


@nightly
def test_the_others_have_the_numbers_of_the_whole_run(runs: Runs) -> None:
    columns = "rank, step, window_ns, compute_ns, comm_ns, idle_ns"
    with traceweave.open(runs.whole) as whole, traceweave.open(runs.cut) as cut:
        expected = whole.analyze("breakdown")[columns.split(", ")]
        expected = expected[expected["rank"] != 1].reset_index(drop=True)
        found = cut.analyze("breakdown")[columns.split(", ")]
    assert found.equals(expected)


@nightly
def test_info_and_the_page_say_so(runs: Runs, tmp_path: Path) -> None:
    with traceweave.open(runs.cut) as cut:
        assert NOTE in [caution.text for caution in cut.info().warnings]
        page = cut.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "No GPU work was recorded on rank 1, unlike the others" in page


@nightly
def test_compared_with_the_whole_run_nothing_has_changed(runs: Runs) -> None:
    compared = traceweave.compare(runs.whole, runs.cut)
    assert set(compared.table("classes")["change"].to_pylist()) == {"same"}
    assert "2 ranks (1 more recorded no GPU work)" in " ".join(compared.words)
