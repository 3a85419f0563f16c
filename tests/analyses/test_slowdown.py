"""The slowdown by stragglers, worked out by hand, and on simulated runs with a known cause."""

from dataclasses import replace

import duckdb
import pytest

from tests.analyses.builders import rows
from tests.conftest import Simulated
from tests.marks import nightly
from tests.replay import by_hand
from tests.replay.by_hand import US
from tests.simulated_runs import FOUR_RANKS, MS
from traceweave_simulator import Config


def test_by_hand(empty_run: duckdb.DuckDBPyConnection) -> None:
    by_hand.write(empty_run)
    found = rows(empty_run, "slowdown")
    of = {(row["scope"], row["what"] or row["rank"] or row["step"]): row for row in found}
    # A takes 20 at the mean, B 13: rank 2 arrives last, at 25, and ends at 25 + 12 + 28
    job = of["job", None]
    assert (job["undelayed_ns"], job["ideal_ns"]) == (70 * US, 65 * US)
    assert job["slowdown"] == of["step", 1]["slowdown"] == pytest.approx(70 / 65)
    # only rank 1 takes longer than the mean where it counts, for A
    ranks = {row["rank"]: row["slowdown"] for row in found if row["scope"] == "rank"}
    assert ranks == {0: 1, 1: pytest.approx(70 / 65), 2: 1}
    kernels = {row["what"]: row["slowdown"] for row in found if row["scope"] == "kernel"}
    assert kernels == {"A": pytest.approx(70 / 65), "B": 1, "C": 1, "D": 1}
    # it is the worst one, and fixing it removes everything
    assert of["worst ranks", "1"]["share"] == pytest.approx(1)
    assert ("stage", "0") not in of


@nightly
def test_a_slow_rank_is_the_worst_one(simulated: Simulated) -> None:
    quiet = FOUR_RANKS.quiet()
    found = simulated(replace(quiet, straggler={2: 6 * MS})).slowdown().set_index(["scope"])
    assert found.loc["worst ranks", "what"] == "2"
    assert found.loc["worst ranks", "share"] == pytest.approx(1, abs=0.05)
    # a quarter of the 6 ms is in the mean of everybody
    job = found.loc["job"]
    assert job["undelayed_ns"] - job["ideal_ns"] == pytest.approx(4.5 * MS, rel=0.02)


@nightly
def test_a_job_without_stragglers_is_not_slowed_down(simulated: Simulated) -> None:
    found = simulated(FOUR_RANKS.quiet()).slowdown().set_index("scope")
    assert found.loc["job", "slowdown"] == pytest.approx(1, abs=1e-6)
    assert found["share"].isna().all()


@nightly
def test_a_longer_last_stage_is_told_from_a_slow_rank(simulated: Simulated) -> None:
    # 7 layers on 2 stages: 3 and 4; two pipelines, so that a stage is two ranks
    uneven = Config(ranks=4, steps=3, layers=7, parallelism="pp", group_size=2).quiet()
    found = simulated(uneven).slowdown()
    stages = found[found["scope"] == "stage"]
    assert stages["what"].tolist() == ["0", "1"]
    assert set(found.loc[found["scope"] == "last stage", "what"]) == {"1"}
    assert len(found[found["scope"] == "rank"]) == 4
