"""Ranks that compute longer, and are neither slow nor have more to do."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import only
from tests.marks import first_at_once, nightly
from tests.simulated_runs import PP
from traceweave_simulator import Config

LONGER = "UPDATE base.gpu_ops SET duration_ns = duration_ns * {} // 10 WHERE category = 'compute'"


def _found(run: Path, target: Path, *changes: str) -> dict[str, list[int]]:
    shutil.copy(run, target)
    with duckdb.connect(target) as con:
        for change in changes:
            con.execute(change)
    with traceweave.open(target) as opened, only("slow_kernels", "uneven_work"):
        found = opened.findings(min_share=0)
    return {row.rule: list(row.ranks) for row in found.itertuples()}


@nightly
def test_inputs_that_are_longer_in_one_step_make_no_gpu_slow(
    corpus: Path, database_of: Callable[..., Path], tmp_path: Path
) -> None:
    """Of nanogpt's four steps the third takes rank 1 longer, by as much over all as a GPU that is
    slow by a tenth does (test_rules.py)."""
    run = database_of(corpus / "kineto" / "nanogpt_8xh100")
    with duckdb.connect(run, read_only=True) as con:
        steps = [
            step for (step,) in con.execute("SELECT DISTINCT step FROM steps ORDER BY 1").fetchall()
        ]
    change = LONGER.format(14) + f" AND rank = 1 AND step = {steps[2]}"
    assert _found(run, tmp_path / "one.duckdb", change) == {}


@first_at_once()
@pytest.mark.parametrize(("also", "found"), [("3", {"slow_kernels": [3]}), ("", {})])
def test_stages_of_a_pipeline_are_compared_by_themselves(
    simulated_database: Callable[[Config], Path],
    tmp_path: Path,
    also: str,
    found: dict[str, list[int]],
) -> None:
    """Two pipelines of four stages, whose second takes a fifth longer for each kernel."""
    changes = [LONGER.format(12) + " AND rank // 2 = 1"]
    changes += [LONGER.format(12) + f" AND rank = {also}"] if also else []
    assert (
        _found(simulated_database(replace(PP, steps=4)), tmp_path / "stage.duckdb", *changes)
        == found
    )
