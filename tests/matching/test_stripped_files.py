"""Real traces stripped of every label in the files are matched as with them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.marks import nightly
from tests.matching.stripping import strip_kineto, strip_nsys
from traceweave.weave import weave

DatabaseOf = Callable[..., Path]


def instances(database: Path) -> set[frozenset[tuple[int, int]]]:
    """The kernels of every instance, each by its rank and when it began."""
    with traceweave.open(database) as run:
        found = run.sql("SELECT collective_id, rank, start_local_ns FROM collectives")
    matched = found[found.collective_id.notna()]
    assert len(matched) == len(found)
    parts = matched.groupby("collective_id")
    return {frozenset(zip(p["rank"], p.start_local_ns, strict=True)) for _, p in parts}


@nightly
@pytest.mark.parametrize("name", ["megatron_tp8", "torchrec_4", "nanogpt_8xh100"])
def test_kineto_files(corpus: Path, database_of: DatabaseOf, tmp_path: Path, name: str) -> None:
    source = corpus / "kineto" / name
    (tmp_path / "traces").mkdir()
    # the name of a file may hold its rank
    stripped = sum(
        strip_kineto(path, tmp_path / "traces" / path.name.removesuffix(".gz"))
        for path in source.glob("*.json.gz")
    )
    assert stripped > 0
    traceweave.ingest(tmp_path / "traces", tmp_path / "run.duckdb")
    assert instances(tmp_path / "run.duckdb") == instances(database_of(source))


@nightly
@pytest.mark.parametrize("name", ["before", "after"])
def test_nsys_reports(corpus: Path, database_of: DatabaseOf, tmp_path: Path, name: str) -> None:
    source = corpus / "nsys" / f"fsdp_2rank_{name}__2026.2.sqlite"
    assert strip_nsys(source, tmp_path / "report.sqlite") > 0
    traceweave.ingest(tmp_path / "report.sqlite", tmp_path / "run.duckdb")
    assert instances(tmp_path / "run.duckdb") == instances(database_of(source))


@nightly
def test_reports_of_two_runs_are_not_joined(corpus: Path, tmp_path: Path) -> None:
    # each is one rank of a job of four, which ran twice with other buckets
    for run in ("baseline", "bucketcap100mb"):
        packed = corpus / "nsys" / f"ddp_4gpu_{run}__nersc.sqlite.gz"
        (tmp_path / f"{run}.sqlite").write_bytes(gzip.decompress(packed.read_bytes()))
    with pytest.raises(traceweave.InputError, match="2 runs lie here"):
        traceweave.ingest(tmp_path, tmp_path / "run.duckdb")
    said = {"baseline.sqlite": [0], "bucketcap100mb.sqlite": [1]}
    traceweave.ingest(tmp_path, tmp_path / "run.duckdb", ranks=said, one_run=True)
    with duckdb.connect(str(tmp_path / "run.duckdb")) as con:
        assert weave(con).instances == 0
        # as if both had begun at one moment
        con.execute(
            "UPDATE base.collective_calls AS c SET start_local_ns = start_local_ns - first"
            " FROM (SELECT rank, min(start_local_ns) - 10**18 AS first FROM base.collective_calls"
            " GROUP BY rank) AS f WHERE c.rank = f.rank"
        )
        summary = weave(con)
        assert summary.instances == 0
        assert summary.calls == 472 + 295
