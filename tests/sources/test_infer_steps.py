"""Steps that nobody marked, against the simulator's own, whose marks are taken out of the files."""

import gzip
from pathlib import Path

import duckdb
import orjson
import pytest

import traceweave
from tests.marks import at_once, first_at_once, nightly
from traceweave_simulator import Config, simulate, write_kineto
from traceweave_simulator.config import Parallelism

Rows = list[tuple[int, int, int, int | None]]


def _ingest(config: Config, folder: Path, *, marks: bool) -> Path:
    traces = folder / "traces"
    for path in write_kineto(simulate(config), traces):
        if not marks:
            trace = orjson.loads(gzip.decompress(path.read_bytes()))
            trace["traceEvents"] = [
                event
                for event in trace["traceEvents"]
                if not str(event.get("name")).startswith("ProfilerStep#")
            ]
            path.write_bytes(gzip.compress(orjson.dumps(trace), 1))
    traceweave.ingest([traces], folder / "run.duckdb")
    return folder / "run.duckdb"


def _kernels(database: Path) -> dict[tuple[int, int | None], int]:
    """Kernels by rank and step."""
    with duckdb.connect(database, read_only=True) as con:
        found = con.execute(
            "SELECT rank, step, count(*) FROM gpu_ops WHERE kind = 'kernel' GROUP BY ALL"
        ).fetchall()
    return {(rank, step): count for rank, step, count in found}


def _sources(database: Path) -> list[tuple[int, str, int]]:
    with duckdb.connect(database, read_only=True) as con:
        return con.execute(
            "SELECT rank, source, count(*) FROM steps GROUP BY ALL ORDER BY ALL"
        ).fetchall()


@nightly
@pytest.mark.parametrize("parallelism", at_once(["ddp", "fsdp", "tp", "pp"], "ddp"))
def test_the_period_of_a_simulated_run_is_its_step(
    parallelism: Parallelism, tmp_path: Path
) -> None:
    config = Config(ranks=2, steps=6, layers=4, parallelism=parallelism)
    (tmp_path / "marked").mkdir()
    marked = _ingest(config, tmp_path / "marked", marks=True)
    inferred = _ingest(config, tmp_path, marks=False)
    assert _sources(marked) == [(0, "ProfilerStep", 6), (1, "ProfilerStep", 6)]
    # the last one is not known to be whole
    assert _sources(inferred) == [(0, "inferred", 5), (1, "inferred", 5)]
    want, got = _kernels(marked), _kernels(inferred)
    for rank in (0, 1):
        assert {got[rank, step] for step in range(5)} == {want[rank, 3]}


@first_at_once()
@pytest.mark.parametrize(
    ("config", "why"),
    [
        (Config(ranks=1, steps=1, layers=24), "layers repeat, steps do not"),
        (Config(ranks=1, steps=2, layers=24), "two steps show one period only"),
        (Config(ranks=1, steps=3, layers=2), "three steps show it twice only"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_unmistakable_is_not_inferred(config: Config, why: str, tmp_path: Path) -> None:
    assert _sources(_ingest(config, tmp_path, marks=False)) == [], why
