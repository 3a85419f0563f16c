"""Runs that two profilers recorded, in one window or in several."""

import shutil
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from tests.marks import at_once, first_at_once
from traceweave.weave import weave
from traceweave_simulator import Config, simulate, write_kineto, write_nsys
from traceweave_simulator.config import Parallelism
from traceweave_simulator.traffic import simulate_traffic
from traceweave_simulator.traffic_jobs import DDP, TP_DP, Job, Op
from traceweave_simulator.traffic_tables import clock_errors, store_traffic, wrong_matches


@pytest.mark.parametrize("parallelism", at_once(["ddp", "tp", "pp"], "tp"))
def test_kineto_and_nsys_ranks_of_one_run_are_matched(
    parallelism: Parallelism, tmp_path: Path
) -> None:
    config = Config(
        ranks=4, hosts=2, steps=3, parallelism=parallelism, clock_offset_ns=400_000_000,
        end_jitter_ns=3_000, group_size=None if parallelism == "ddp" else 2,
    )  # fmt: skip
    run = simulate(config)
    kineto, nsys = write_kineto(run, tmp_path / "k"), write_nsys(run, tmp_path / "n", 2)
    (tmp_path / "traces").mkdir()
    for path in (*kineto[:2], nsys[1]):
        shutil.copy(path, tmp_path / "traces" / path.name)
    traceweave.ingest(tmp_path / "traces", tmp_path / "run.duckdb")
    clocks = config.rank_clocks()
    with traceweave.open(tmp_path / "run.duckdb") as woven:
        assert "unmatched" not in set(woven.sql("SELECT match FROM collectives").match)
        found = woven.sql("SELECT rank, offset_ns, status FROM clocks ORDER BY rank")
    assert set(found.status) <= {"aligned", "same host"}
    truth = np.array([clocks[0].offset_ns - clock.offset_ns for clock in clocks])
    # a few sends whose receivers end up to 10 us later, always: half of that is beyond any fit
    assert np.abs(found.offset_ns - truth).max() < 6_000


@pytest.mark.parametrize("program", at_once([TP_DP, DDP], TP_DP), ids=["tp and dp", "ddp"])
@first_at_once()
@pytest.mark.parametrize("with_seq", [False, True], ids=["no Seq", "Seq"])
def test_several_windows_per_rank(
    empty_run: duckdb.DuckDBPyConnection, program: tuple[Op, ...], with_seq: bool
) -> None:
    run = simulate_traffic(Job(steps=120, program=program, with_seq=with_seq, ring_bias=5))
    store_traffic(empty_run, run)
    # two files per rank: steps 0 to 39 and 80 to 119, a little more or less of them
    empty_run.execute(
        "WITH steps AS (SELECT call_id, rank, row_number() OVER (PARTITION BY rank"
        f" ORDER BY start_local_ns) // {len(program)} AS step FROM base.collective_calls)"
        " DELETE FROM base.collective_calls WHERE call_id IN (SELECT call_id FROM steps"
        " WHERE step BETWEEN 40 - rank % 3 AND 80 + rank % 2)"
    )
    empty_run.execute(
        "UPDATE base.collective_calls AS c SET source_id = c.rank + 100 FROM (SELECT rank,"
        " avg(start_local_ns) AS middle FROM base.collective_calls GROUP BY rank) AS m"
        " WHERE c.rank = m.rank AND c.start_local_ns > m.middle"
    )
    summary = weave(empty_run)
    assert wrong_matches(empty_run, run) == 0
    assert sum(summary.matched.values()) > 0.97 * summary.calls
    assert np.percentile(np.abs(clock_errors(empty_run, run)), 95) < 12
