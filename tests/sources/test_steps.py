"""Which ranges are training steps, and what their numbers are."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.cases import cases
from tests.marks import first_at_once, nightly
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


@nightly
def test_ingest_takes_the_expression(tmp_path: Path) -> None:
    path = write_export(tmp_path / "r.sqlite", NVTX_EVENTS=[nvtx(11, 10, 20, "microbatch 4")])
    ingest(path, tmp_path / "run.duckdb", step_range="^microbatch")
    with duckdb.connect(str(tmp_path / "run.duckdb"), read_only=True) as con:
        assert con.execute("SELECT rank, step, duration_ns FROM steps").fetchall() == [(0, 0, 10)]


def test_a_wrong_expression_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--step-range 'step \('.*not a regular expression"):
        ingest(tmp_path, tmp_path / "run.duckdb", step_range="step (")
