"""Small collectives are named by the clocks' leave, and without it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb

import traceweave
from tests.analyses.builders import only
from tests.marks import nightly


# what was wrong: one collective of 1,536 that ended on a rank before it began on another left the
# clocks too wide for any transfer, and nothing was said
@nightly
def test_small_collectives_are_named_where_no_transfer_is_resolved(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    path = tmp_path / "run.duckdb"
    shutil.copy(database_of(fixtures / "many_buckets_gloo"), path)
    with duckdb.connect(str(path)) as con:
        con.execute("UPDATE clocks SET residual_p95_ns = 1_000_000_000")
    with traceweave.open(path) as run, only("small_collectives"):
        assert run.analyze("alpha_beta")["sizes"].tolist() == [0]
        found = run.findings().set_index("rule").loc["small_collectives"]
    assert "Each rank calls all_reduce 24 times per step, 16.4 kB on average" in found["evidence"]
    assert found["scenario"] == "group=0 bucket_mb=25"


# what was wrong: "1 all_reduce per step", of a job that sums up six in every fourth
@nightly
def test_sums_of_some_steps_are_counted_in_these(
    fixtures: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Of four steps of 24 sums two are left without any."""
    path = tmp_path / "run.duckdb"
    shutil.copy(database_of(fixtures / "many_buckets_gloo"), path)
    with duckdb.connect(str(path)) as con:
        con.execute("DELETE FROM base.collective_calls WHERE step IN (4, 6)")
    with traceweave.open(path) as run, only("small_collectives"):
        found = run.findings().set_index("rule").loc["small_collectives"]
    assert found["title"] == "24 all_reduce in 2 of 4 steps are small: 16.4 kB"
    assert found["evidence"].startswith("Each rank calls all_reduce 24 times in 2 of 4 steps, 16.4")


# what was wrong: a finding of each group that does the same, of which no scenario gains what all do
@nightly
def test_groups_that_do_the_same_are_merged_in_one_scenario(
    fixtures: Path, database_of: Callable[..., Path]
) -> None:
    with traceweave.open(database_of(fixtures / "at_once_gloo")) as run, only("small_collectives"):
        (found,) = run.findings().to_dict("records")
        each = [run.what_if(f"group={group} bucket_mb=25")["gain_ns"][0] for group in (1, 2)]
    assert found["evidence"].startswith("Each rank of 2 groups calls all_reduce 2 times per step")
    assert found["scenario"] == "group=1,2 bucket_mb=25"
    assert found["cost_ns"] >= max(each) > 0
