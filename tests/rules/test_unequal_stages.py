"""Pipelines whose last stage is longer: by hand, simulated, and real ones that have none."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import Builder, found_by
from tests.conftest import Recorded, Simulated
from tests.marks import first_at_once, nightly
from traceweave.analyses.catalog import called
from traceweave.analyses.runner import materialize
from traceweave_simulator import Config

US = 1000
PIPELINE = Config(ranks=8, steps=2, layers=4, parallelism="pp", group_size=2, microbatches=4)
UNEQUAL = replace(PIPELINE, layers=2, last_stage_layers=2)


@pytest.fixture
def build(empty_run: duckdb.DuckDBPyConnection) -> Builder:
    return Builder(empty_run)


def found(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return the rows of the rule."""
    rule = called("rule", "unequal_stages")
    result = con.table(materialize(con, rule, rule.bind({})))
    return [dict(zip(result.columns, row, strict=True)) for row in result.fetchall()]


def _gpipe(build: Builder, slow: int = 2, first: int = 0) -> None:
    """Two stages, three micro-batches: 10 us forward, 20 us backward on the first stage, and `slow`
    times that on the second. Messages take no time."""
    forward, backward = 10, 20
    ranks = first, first + 1
    sent = [forward * (n + 1) for n in range(3)]
    done = [forward + slow * forward * (n + 1) for n in range(3)]
    returned = [done[-1] + slow * backward * (n + 1) for n in range(3)]
    ends = [at + backward for at in returned]
    for rank in ranks:
        build.rank(rank)
        build.step(rank, 1, (0, ends[-1] * US), (0, ends[-1] * US))
    work = {
        ranks[0]: [(at - forward, at) for at in sent] + list(zip(returned, ends, strict=True)),
        ranks[1]: list(pairwise([forward, *done])) + list(pairwise([done[-1], *returned])),
    }
    for rank, intervals in work.items():
        for begin, end in intervals:
            build.gpu(rank, (begin * US, end * US), step=1)
    for source, times in ((0, sent), (1, returned)):
        for at in times:
            both = dict.fromkeys(ranks, (at * US, at * US))
            each = {ranks[source]: {"op": "send"}, ranks[1 - source]: {"op": "recv"}}
            build.collective(both, group_id=first, step=1, each=each)


def test_by_hand(build: Builder) -> None:
    build.group(0, [0, 1], role="pp", role_source="name")
    _gpipe(build)
    # it takes 210 us; with 15 and 30 us on both stages 60 + 4 * 30 = 180
    [row] = found(build.con)
    assert (row["ranks"], row["cost_ns"]) == ([1], pytest.approx(30 * US))
    assert row["evidence"].startswith("The last stage of 2 computes 180 us per step, 33.3% longer")
    assert row["scenario"] == ("rank=0 kind=compute times=1.5000; rank=1 kind=compute times=0.7500")
    named = found_by(build.con, "unequal_stages")["unequal_stages"]
    assert (named["cost_ns"], named["proof"]) == (30 * US, "pipeline")


def test_of_an_interleaved_pipeline_ranks_are_compared(build: Builder) -> None:
    """In a V, as torch names its parts, rank 0 has the first and the last stage."""
    build.group(0, [0, 1], role="pp", role_source="name")
    for rank, stages in enumerate(((0, 3), (1, 2))):
        for stage in stages:
            build.host(rank, (0, US), f"PP:{stage}F0", "annotation")
    _gpipe(build)
    [row] = found(build.con)
    assert row["title"] == "Rank 1 computes 33.3% longer than the mean rank"
    assert row["evidence"].startswith("Rank 1 with stages 1, 2 computes 180 us per step, 33.3% ")
    assert row["advice"] == "Move layers to the other ranks, so that all take 135 us"


def test_equal_stages_are_none(build: Builder) -> None:
    build.group(0, [0, 1], role="pp", role_source="name")
    _gpipe(build, slow=1)
    assert found(build.con) == []


@nightly
def test_a_single_slow_rank_makes_no_stage_longer(build: Builder) -> None:
    for first, slow in ((0, 2), (2, 1)):
        build.group(first, [first, first + 1], role="pp", role_source="name")
        _gpipe(build, slow, first)
    assert found(build.con) == []


@nightly
def test_what_is_gained_is_what_an_even_pipeline_takes_less(simulated: Simulated) -> None:
    run = simulated(PIPELINE)
    assert "unequal_stages" not in set(run.findings()["rule"])
    even = run.steps()["length_ns"].mean()
    run = simulated(UNEQUAL)
    assert "unequal_stages" in set(run.findings()["rule"])
    [row] = found(run.con)
    answer = run.what_if(row["scenario"]).iloc[0]
    assert row["ranks"] == [4, 5, 6, 7]
    assert "times=0.6" in row["scenario"]
    assert answer["predicted_step_ns"] == pytest.approx(even, rel=0.01)
    gain = answer["measured_step_ns"] - even
    assert answer["gain_ns"] == pytest.approx(gain, rel=0.05)
    assert row["cost_ns"] == pytest.approx(gain, rel=0.1)


@first_at_once()
@pytest.mark.parametrize("name", ["pipeline_1f1b", "pipeline_gpipe", "ddp_gloo_straggler"])
def test_real_runs_without_it(name: str, recorded: Recorded) -> None:
    assert found(recorded(name).con) == []
