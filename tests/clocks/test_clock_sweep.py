"""The benchmark of clocks runs, and its small cases meet their goals."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import duckdb
import numpy as np
import pytest

from tests.analyses.builders import rows
from tests.collective_calls import add_call, add_rank
from tests.marks import nightly
from traceweave.weave import align, weave
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import Job
from traceweave_simulator.traffic_tables import store_traffic


@pytest.fixture(scope="module")
def sweep() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "clock_sweep.py"
    spec = importlib.util.spec_from_file_location("clock_sweep", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["clock_sweep"] = module
    spec.loader.exec_module(module)
    return module


@nightly
def test_small_cases_meet_their_goals(sweep: ModuleType) -> None:
    for case in sweep.quick_cases():
        found = sweep.score(case.job)
        p95 = np.percentile(found.errors, 95)
        plain = min(np.percentile(found.median, 95), np.percentile(found.line, 95))
        assert (found.wrong, found.split, found.outside, found.loose) == (0, 0, 0, 0), case.name
        assert p95 <= plain + 0.1, case.name
        assert case.goal is None or p95 < case.goal, case.name


@nightly
def test_fifty_thousand_calls_take_seconds(sweep: ModuleType) -> None:
    found = sweep.score(Job(hosts=2, per_host=8, steps=800))
    assert found.calls == 51_200
    assert found.seconds < 20


def test_what_contradicts_causality_is_counted(empty_run: duckdb.DuckDBPyConnection) -> None:
    for rank in range(2):
        add_rank(empty_run, rank)
    # the first says that rank 1 is ahead by at least 1000 us, the second that it is behind
    for k, (early, late) in enumerate(((0, 1), (1, 0))):
        add_call(empty_run, early, 5000 * k, 5000 * k + 100, ranks=[0, 1], seq=k)
        add_call(empty_run, late, 5000 * k + 1100, 5000 * k + 1200, ranks=[0, 1], seq=k)
    assert weave(empty_run).violations == 2
    kinds = "SELECT kind, count, example FROM ingest_issues ORDER BY kind"
    contradicting, (kind, violated, example) = empty_run.execute(kinds).fetchall()
    assert contradicting == ("causality_contradicts_itself", 1, None)
    assert (kind, violated) == ("causality_violated", 2)
    assert example in ("rank 0 before rank 1", "rank 1 before rank 0")
    align(empty_run)
    assert len(empty_run.execute(kinds).fetchall()) == 2


def test_waits_told_twice_show_a_clock_that_is_off(empty_run: duckdb.DuckDBPyConnection) -> None:
    store_traffic(empty_run, simulate_traffic(Job()))
    weave(empty_run)
    fitted = rows(empty_run, "clock_quality")
    assert all(row["violations"] == 0 and row["disagreements"] <= 2 for row in fitted)
    empty_run.execute("UPDATE clocks SET offset_ns = offset_ns + 200_000 WHERE rank = 3")
    found = rows(empty_run, "clock_quality")
    assert all(row["disagreements"] > 100 for row in found)
    # by as much as the clock is off, give or take what ends scatter
    assert all(150_000 < row["disagreement_max_ns"] < 250_000 for row in found)


def test_good_clocks_leave_nothing_to_report(empty_run: duckdb.DuckDBPyConnection) -> None:
    store_traffic(empty_run, simulate_traffic(Job()))
    assert weave(empty_run).violations == 0
    assert empty_run.execute("SELECT kind FROM ingest_issues").fetchall() == []
