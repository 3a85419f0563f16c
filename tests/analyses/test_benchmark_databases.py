"""The databases that benchmarks/analyses.py makes are those of an ingested run, only larger."""

import importlib
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import duckdb
import pytest

import traceweave
from tests.conftest import MakeOnce
from tests.marks import first_at_once, nightly


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/analyses.py, which repeats a run of two ranks and two steps here."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    module = importlib.import_module("analyses")
    base = replace(module.BASE, ranks=2, hosts=1, steps=2, layers=1, straggler={}, gaps=())
    monkeypatch.setattr(module, "BASE", base)
    return module


@nightly
def test_repetitions_have_ids_of_their_own(benchmark: ModuleType, tmp_path: Path) -> None:
    benchmark.make(tmp_path / "once.duckdb", ranks=2, gpu_ops=1)
    benchmark.make(tmp_path / "often.duckdb", ranks=4, gpu_ops=100)
    with (
        traceweave.open(tmp_path / "once.duckdb") as once,
        traceweave.open(tmp_path / "often.duckdb") as often,
    ):
        per_rank = len(once.sql("FROM gpu_ops WHERE rank = 0"))
        laps = -(-100 // per_rank)
        assert laps > 1
        for relation in ("gpu_ops", "host_ops", "collectives"):
            rows = [len(run.sql(f"FROM {relation}")) for run in (once, often)]
            assert rows[1] == 2 * laps * rows[0] > 0
        instances = often.sql("FROM collective_instances")
        assert set(instances["ranks_seen"]) == {4}
        assert len(instances) == laps * len(once.sql("FROM collective_instances"))


@first_at_once()
@pytest.mark.parametrize(
    "again",
    [
        "INSERT INTO base.gpu_ops SELECT * FROM base.gpu_ops LIMIT 1",
        "UPDATE base.host_ops SET op_id = (SELECT min(op_id) FROM base.gpu_ops) WHERE depth = 1",
        "UPDATE base.matches SET collective_id = 1",
    ],
)
def test_repeated_ids_are_refused(
    benchmark: ModuleType, once: MakeOnce, tmp_path: Path, again: str
) -> None:
    made = once(
        "the smallest benchmark", ".duckdb", lambda path: benchmark.make(path, ranks=2, gpu_ops=1)
    )
    with duckdb.connect(shutil.copy(made, tmp_path / "run.duckdb")) as con:
        benchmark.refuse_repeated_ids(con)
        con.execute(again)
        with pytest.raises(SystemExit, match="repeat a"):
            benchmark.refuse_repeated_ids(con)
