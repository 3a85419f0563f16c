"""Which ranges are training steps, and what their numbers are."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from tests.cases import cases
from tests.marks import first_at_once, nightly
from tests.rewritten import rewritten
from tests.sources.nsys_export import nvtx, write_export
from traceweave.errors import UsageError
from traceweave.ingestion import ingest
from traceweave.sources import nsys
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables


def steps(path: Path, names: list[str], step_range: str | None) -> list[tuple[int, int, str]]:
    """(step, position of its range in `names`, source) of a report with one range per name."""
    path = write_export(
        path / "steps.sqlite",
        epoch=0,
        NVTX_EVENTS=[nvtx(11, 100 * i, 100 * i + 90, name) for i, name in enumerate(names)],
    )
    trace = dataclasses.replace(nsys.probe(path), step_range=step_range)
    trace = trace.with_ranks({trace.processes[0].key: (0, "test")})
    with duckdb.connect() as con:
        create_tables(con)
        nsys.load(con, trace, 1, lambda _: None)
        return con.execute(
            "SELECT step, start_local_ns // 100, concat_ws(' ', source, kind) FROM base.steps"
            " ORDER BY 1"
        ).fetchall()


@first_at_once()
@cases
def test_steps_as_runs_usually_mark_them(
    tmp_path: Path, names: list[str], expected: list[tuple[int, int, str]]
) -> None:
    assert steps(tmp_path, names, None) == expected


@cases
def test_the_user_names_the_ranges_of_steps(
    tmp_path: Path, names: list[str], step_range: str, expected: list[tuple[int, int, str]]
) -> None:
    assert steps(tmp_path, names, step_range) == expected


@cases
def test_a_step_that_the_profiler_began_and_the_job_did_not_is_none(
    corpus: Path, database_of: Callable[..., Path], name: str, marked: list[int], kept: list[int]
) -> None:
    with open_database(database_of(corpus / "kineto" / name)) as con:
        found = con.execute("SELECT name FROM host_ops WHERE name LIKE 'ProfilerStep#%' ORDER BY 1")
        assert found.fetchall() == [(f"ProfilerStep#{n}",) for n in marked]
        found = con.execute("SELECT step FROM base.steps ORDER BY 1")
        assert found.fetchall() == [(step,) for step in kept]


def test_ops_without_a_recorded_launch_are_of_the_step_they_start_in(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    """As where the device alone is recorded."""

    def unlaunched(trace: dict[str, Any]) -> None:
        trace["traceEvents"] = [
            event
            for event in trace["traceEvents"]
            if event.get("cat") not in ("cuda_runtime", "cuda_driver", "ac2g")
        ]

    job = fixtures / "slow_rank_nccl"
    ingest(rewritten(job, tmp_path / "traces", unlaunched), tmp_path / "run.duckdb")
    asked = "SELECT rank, op_id, step FROM gpu_ops ORDER BY rank, start_ns, op_id"
    found = []
    for path in (database_of(job), tmp_path / "run.duckdb"):
        with open_database(path) as con:
            found.append(np.ma.filled(con.execute(asked).fetchnumpy()["step"], -1))
            lengths = con.execute(
                "SELECT avg(device_end_local_ns - device_start_local_ns) FROM steps"
            )
            assert lengths.fetchall() != [(None,)]
    assert np.mean(found[0] == found[1]) > 0.99


@nightly
def test_ingest_takes_the_expression(tmp_path: Path) -> None:
    path = write_export(tmp_path / "r.sqlite", NVTX_EVENTS=[nvtx(11, 10, 20, "microbatch 4")])
    ingest(path, tmp_path / "run.duckdb", step_range="^microbatch")
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        assert con.execute("SELECT rank, step, duration_ns FROM steps").fetchall() == [(0, 0, 10)]


def test_a_wrong_expression_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--step-range 'step \('.*not a regular expression"):
        ingest(tmp_path, tmp_path / "run.duckdb", step_range="step (")
