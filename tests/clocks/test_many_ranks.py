"""What is done otherwise for many ranks gives the same clocks for few."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest

from traceweave.clocks import clock_system, clusters, elimination, first_estimate, fit, piece
from traceweave.store.empty import create_tables
from traceweave.weave import weave
from traceweave_simulator.traffic import Traffic, simulate_traffic
from traceweave_simulator.traffic_jobs import Job, three_axes
from traceweave_simulator.traffic_tables import (
    aligned_times,
    outside_bounds,
    split_instances,
    store_traffic,
    wrong_matches,
)

JOB = Job(
    hosts=4, per_host=4, stages=2, program=three_axes(2), steps=4, listed=8, with_hosts=True,
    ring_bias=3.0, end_jitter=2.0, gpu_us=2.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def run() -> Traffic:
    return simulate_traffic(JOB)


def woven(con: duckdb.DuckDBPyConnection, run: Traffic) -> np.ndarray:
    store_traffic(con, run)
    summary = weave(con)
    assert sum(summary.matched.values()) == summary.calls
    assert wrong_matches(con, run) == split_instances(con, run) == 0
    assert not outside_bounds(con, run)
    return aligned_times(con, run)


def test_groups_of_three_axes_are_told_apart(
    empty_run: duckdb.DuckDBPyConnection, run: Traffic
) -> None:
    woven(empty_run, run)
    ranks = empty_run.execute("SELECT ranks FROM groups ORDER BY len(ranks), ranks").fetchall()
    found = [tuple(members) for (members,) in ranks]
    # the hosts of a stage hold replicas; every rank of the first stage sends to the second
    assert (0, 4) in found
    assert (0, 8) in found
    assert (0, 1, 2, 3) in found
    assert tuple(range(16)) in found
    assert len(found) == 8 + 8 + 4 + 1


def test_many_ranks_get_the_clocks_of_few(
    empty_run: duckdb.DuckDBPyConnection, run: Traffic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with duckdb.connect() as other:
        create_tables(other)
        few = woven(other, run)
    monkeypatch.setattr(piece, "MANY", 4)
    monkeypatch.setattr(first_estimate, "WIDE", 8)
    monkeypatch.setattr(clock_system, "DIRECT", 0)
    monkeypatch.setattr(clusters, "MOST", 4)
    monkeypatch.setattr(elimination, "THIN", 1)
    many = woven(empty_run, run)
    assert np.abs(many - few).max() < 0.05


def test_clocks_are_of_all_ends_though_few_tell_the_size_of_lags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = simulate_traffic(replace(JOB, steps=20))

    def clocks() -> np.ndarray:
        with duckdb.connect() as con:
            create_tables(con)
            return woven(con, run)

    whole = clocks()
    monkeypatch.setattr(fit, "ENDS", 1)
    monkeypatch.setattr(fit, "LEAST", 8)
    near = np.abs(clocks() - whole).max()
    monkeypatch.setattr(fit, "LAST_ROUNDS", 0)
    assert 0 < near < 0.25
    assert 4 * near < np.abs(clocks() - whole).max()
