"""Every folder of real traces is ingested, or refused for the reason its index row gives."""

import gzip
from collections import Counter
from pathlib import Path

import orjson
import pytest

import traceweave
from tests.conftest import DatabaseOf, Recorded
from tests.marks import at_once, nightly
from traceweave.api import Run
from traceweave.errors import InputError

RANKS = {
    "amd_mi250": [0], "cpu_gloo_1of300": [34], "cuda_sync": [0], "diff_control": [3],
    "diff_test": [1], "ep_moe_b200_seq": [0], "hta_pair_nccl2": [0], "megatron_tp8": list(range(8)),
    "mtia": [0], "nanogpt_8xh100": list(range(8)), "negative_queue_1of16": [0], "no_rank": [0],
    "ns_resolution": [0], "old_inference": [1], "sampled_2of128": [0, 1],
    "torchrec_4": [0, 1, 2, 3], "triton": [0],
}  # fmt: skip


@pytest.mark.parametrize("name", at_once(RANKS, "amd_mi250"))
def test_folder_is_ingested(recorded: Recorded, name: str) -> None:
    run = recorded(f"kineto/{name}")
    assert run.sql("SELECT rank FROM ranks ORDER BY rank")["rank"].tolist() == RANKS[name]
    check_every_event(run)


GPU = {"kernel", "gpu_memcpy", "gpu_memset", "mtia_ccp_events"}
HOST = {*("cpu_op", "user_annotation", "runtime", "cuda_runtime", "cuda_driver", "mtia_runtime")}


def check_every_event(run: Run) -> None:
    """Hold what is stored of every file against the events that a JSON parser finds in it."""
    sources = run.con.execute(
        "SELECT path, status, events_read, events_stored + events_skipped,"
        " (SELECT coalesce(sum(count), 0) FROM ingest_issues AS i"
        "  WHERE i.source_id = s.source_id AND kind = 'unpaired arrow') = events_skipped,"
        " (SELECT count(*) FROM host_ops AS h WHERE h.source_id = s.source_id),"
        " (SELECT count(*) FROM gpu_ops AS g WHERE g.source_id = s.source_id)"
        " FROM sources AS s"
    ).fetchall()
    assert sources
    for path, *found in sources:
        events = orjson.loads(gzip.decompress(Path(path).read_bytes()))["traceEvents"]
        categories = Counter(e.get("cat") for e in events if e["ph"] == "X")
        host, gpu = (
            sum(n for category, n in categories.items() if str(category).lower() in which)
            for which in (HOST, GPU)
        )
        assert found == ["ok", len(events), len(events), True, host, gpu], path


@nightly
@pytest.mark.parametrize("name", ["hta_pair_nccl2", "diff_control", "nanogpt_8xh100"])
def test_a_database_takes_a_quarter_of_the_raw_json(
    corpus: Path, database_of: DatabaseOf, name: str
) -> None:
    folder = corpus / "kineto" / name
    raw = sum(len(gzip.decompress(path.read_bytes())) for path in folder.glob("*.gz"))
    assert database_of(folder).stat().st_size <= 0.25 * raw


@nightly
def test_no_analysis_breaks_the_identity(recorded: Recorded) -> None:
    for name in RANKS:
        rows = recorded(f"kineto/{name}").breakdown()
        parts = ["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]
        assert (rows[parts].sum(axis=1) == rows["window_ns"]).all(), name


@nightly
def test_two_runs_in_one_folder_are_refused_and_can_be_chosen(corpus: Path, tmp_path: Path) -> None:
    folder = corpus / "kineto" / "torchrec_two_runs_in_one_folder"
    with pytest.raises(InputError, match="--run"):
        traceweave.ingest([folder], tmp_path / "run.duckdb")
    for number in (1, 2):
        database = tmp_path / f"run{number}.duckdb"
        assert traceweave.ingest([folder], database, run=number).ok
        with traceweave.open(database) as run:
            assert run.sql("SELECT rank FROM ranks ORDER BY rank")["rank"].tolist() == [0, 1, 2, 3]
            check_every_event(run)


@nightly
def test_a_file_in_another_encoding_is_missed(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        traceweave.ingest([corpus / "kineto" / "odd"], tmp_path / "run.duckdb")
    result = traceweave.ingest(
        [corpus / "kineto" / "odd", corpus / "kineto" / "triton"], tmp_path / "run.duckdb"
    )
    assert [(s.path.name, s.status) for s in result.sources if s.status != "ok"] == [
        ("utf16_empty.pt.trace.json", "failed")
    ]
    assert not result.ok
