"""What steps would take: by hand, against simulated runs that differ by one thing, on real runs."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest

import traceweave
from tests.analyses.builders import Builder
from tests.conftest import Recorded, Simulated
from tests.marks import first_at_once, nightly
from tests.replay import by_hand
from tests.replay.by_hand import US, check_replay
from tests.simulated_runs import FOUR_RANKS, MS, SLOW_DATA, SLOW_GPU, SLOW_HOST
from tests.told import Case, told
from traceweave.cli import main, what_if
from traceweave.errors import QueryError, UsageError
from traceweave.replay import answers
from traceweave.replay.graph import graph_of
from traceweave.replay.likeness import one_by_one
from traceweave.replay.model import Model, standard_error
from traceweave.replay.nodes import Edge, Sort
from traceweave.store.database import time_limit
from traceweave_simulator import Gap

FSDP = replace(FOUR_RANKS, parallelism="fsdp")
TP = replace(FOUR_RANKS, parallelism="tp", group_size=2)
PP = replace(FOUR_RANKS, parallelism="pp", group_size=2)
BASES = {"ddp": FOUR_RANKS, "fsdp": FSDP, "tp": TP, "pp": PP}


class Run(Builder):
    """Ranks that wait for each other; times in us."""

    def three_ranks(self) -> None:
        """As by_hand.py has it."""
        by_hand.write(self.con)

    def summed(self, step: int, arrived: dict[int, float], end: float) -> None:
        """R of all, from when each has arrived."""
        each = {
            rank: {"gpu_op_id": self.gpu(rank, (at, end), "communication", "R", step=step)}
            for rank, at in arrived.items()
        }
        self.collective({r: (at, end) for r, at in arrived.items()}, step=step, each=each)

    def two_steps(self, computed: Callable[[int, int], list[tuple[str, int]]]) -> None:
        """Two steps of 40 on three ranks: what is `computed` of a step and rank, by name, and when
        it ends in the step, then R."""
        self.world(3)
        for step, begin in ((1, 0), (2, 40)):
            arrived = {}
            for rank in range(3):
                self.step(rank, step, (begin, begin + 40), (begin, begin + 40))
                at = begin
                for name, until in computed(step, rank):
                    self.gpu(rank, (at, begin + until), "compute", name, step=step)
                    at = begin + until
                arrived[rank] = at
            self.summed(step, arrived, begin + 40)

    def slow_from_the_third(self) -> None:
        """Six steps of 200 ms; ranks compute for 100 ms, but rank 1 for 131 from the third on."""
        self.world(3)
        for step, at in enumerate(range(0, 1_200_000, 200_000)):
            arrived = {}
            for rank in range(3):
                self.step(rank, step, (at, at + 200_000), (at, at + 200_000))
                arrived[rank] = at + (131_000 if rank == 1 and step >= 2 else 100_000)
                launch = self.launch(rank, (at, at + 1), step=step)
                self.gpu(rank, (at + 2, arrived[rank]), launch=launch, step=step)
            self.summed(step, arrived, max(arrived.values()) + 10_000)


@told
def test_what_if(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check_replay(Run(empty_run, unit=US), case, **globals())


def test_a_time_limit_ends_it_between_scenarios(empty_run: duckdb.DuckDBPyConnection) -> None:
    by_hand.write(empty_run)
    began = time.monotonic()

    with pytest.raises(QueryError, match="given up"), time_limit(empty_run, 0.2):
        answers.what_if(empty_run, ["kind=compute times=0.5"] * 20_000, "scenario")

    assert time.monotonic() - began < 10


@nightly
def test_extra_calls_of_a_recorded_rank_cost_what_they_take(recorded: Recorded) -> None:
    """Rank 1 makes 16 matrix products per step, rank 0 makes 2 and waits."""
    run = recorded("extra_calls_gloo")
    steps = run.sql(
        "SELECT step, rank, sum(h.duration_ns)::BIGINT AS took,"
        " any_value(c.start_ns) AS arrives, any_value(d.duration_ns) AS divides"
        " FROM host_ops AS h JOIN collectives AS c USING (rank, step)"
        " JOIN host_ops AS d USING (rank, step)"
        " WHERE h.name = 'aten::matmul' AND d.name = 'aten::div_'"
        " GROUP BY ALL ORDER BY step, rank"
    )
    other, own = (steps[steps["rank"] == rank].reset_index() for rank in (0, 1))
    findings = run.findings()
    scenarios = ("rank=1 kind=compute like=median", "kind=compute like=mean")
    removed, divided = (int(run.what_if(one)["gain_ns"][0]) for one in scenarios)
    longer, later = own["took"] - other["took"], own["arrives"] - other["arrives"]
    # in ms 73.2, 66.0, 62.5 and 50.2 longer, and 69.3, 56.2, 70.0 and 40.6 later: the less counts
    assert longer.round(-5).tolist() == [73_200_000, 66_000_000, 62_500_000, 50_200_000]
    assert later.round(-5).tolist() == [69_300_000, 56_200_000, 70_000_000, 40_600_000]
    # rank 1 divides 7.3 and 5.3 longer in steps 4 and 6; the last step of rank 0 is over by then
    divided_longer = (own["divides"] - other["divides"]).clip(0) / [1, 1, 1, 2]
    assert divided_longer.round(-5).tolist() == [0, 7_300_000, 0, 2_600_000]
    gain = (longer.where(longer < later, later) + divided_longer).mean()
    (found,) = findings[findings["rule"] == "straggler"].to_dict("records")
    assert (found["ranks"], found["severity"]) == ([1], "critical")
    assert removed == pytest.approx(float(gain), rel=0.001)
    # whether it could be left out or has to be divided the recording does not tell: the less is
    # its cost, and both are said
    assert (found["scenario"], found["cost_ns"]) == (scenarios[1], divided)
    # nobody waits for its divisions
    assert found["cost_ns"] < removed <= found["bound_ns"] + divided_longer.mean()
    assert f"By replay '{scenarios[0]}' gains {removed / MS:.1f} ms" in found["evidence"]


@nightly
def test_an_operator_after_a_wait_goes_on_when_the_collective_ends(recorded: Recorded) -> None:
    """Waits for sums of tensor parallelism, which a thread of gloo also takes up after the caller
    waits already: of 20 per rank, those that the JSON has with 0.3 ms or more."""
    run = recorded("tp2_dp2_gloo")
    graph = graph_of(run.con)
    waits = run.sql(
        "SELECT w.rank, min(o.start_ns) AS next_ns"
        " FROM host_ops AS w JOIN device_ops AS o ON o.rank = w.rank AND o.stream = w.tid"
        " AND o.start_ns >= w.end_ns AND o.category = 'compute'"
        " WHERE w.name = '_c10d_functional::wait_tensor' AND w.duration_ns > 300000"
        " GROUP BY w.rank, w.op_id"
    )
    held = graph.edges.target[graph.edges.kind == Edge.HOST_WAIT]
    nodes = graph.nodes
    goes_on = set(zip(nodes.rank[held], nodes.start[held] + graph.origin, strict=True))
    waits["found"] = [row in goes_on for row in zip(waits["rank"], waits["next_ns"], strict=True)]
    by_rank = waits.groupby("rank")["found"]
    assert by_rank.count().tolist() == by_rank.sum().tolist() == [15, 20, 18, 16]


@nightly
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("worse", "scenario"),
    [
        ({"straggler": {2: 3 * MS}}, "rank=2 kind=compute like=median"),
        ({"slow_host": {3: 150_000}}, "rank=3 kind=launch like=median"),
        (
            {"gaps": (Gap("data_loading", 4 * MS, ranks=(1,)),)},
            "rank=1 kind=data_loading like=median",
        ),
    ],
    ids=["slow gpu", "slow host", "late data"],
)
def test_the_run_without_it_takes_what_was_predicted(
    base: str, worse: dict[str, object], scenario: str, simulated: Simulated
) -> None:
    (row,) = simulated(replace(BASES[base], **worse)).what_if(scenario).to_dict("records")
    without = simulated(BASES[base]).steps()["length_ns"].mean()
    assert row["measured_step_ns"] == row["replayed_step_ns"]
    assert row["predicted_step_ns"] == pytest.approx(without, rel=0.01)
    gain = row["measured_step_ns"] - without
    assert row["gain_ns"] == pytest.approx(gain, rel=0.05, abs=100_000)


@nightly
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    ("worse", "scenario"),
    [
        ({"straggler": {2: 3 * MS}}, "rank=2 kind=compute like=median"),
        (
            {"gaps": (Gap("data_loading", 4 * MS, ranks=(1,)),)},
            "rank=1 kind=data_loading like=median",
        ),
    ],
    ids=["slow gpu", "late data"],
)
def test_recorded_waits_predict_gains_within_3_percent(
    base: str, worse: dict[str, object], scenario: str, simulated: Simulated
) -> None:
    recorded = replace(BASES[base], cuda_sync_events=True)
    run = simulated(replace(recorded, **worse))
    assert run.replay_quality()["inferred_waits"].sum() == 0
    assert run.replay_quality()["stream_waits"].sum() > 0
    (row,) = run.what_if(scenario).to_dict("records")
    without = simulated(BASES[base]).steps()["length_ns"].mean()
    assert row["predicted_step_ns"] == pytest.approx(without, rel=0.01)
    gain = row["measured_step_ns"] - without
    assert row["gain_ns"] == pytest.approx(gain, rel=0.03, abs=100_000)


@nightly
@pytest.mark.parametrize("base", ["ddp", "fsdp", "tp"])
def test_work_divided_evenly_takes_what_was_predicted(base: str, simulated: Simulated) -> None:
    uneven = replace(BASES[base], straggler={0: 1 * MS, 1: 2 * MS, 2: 3 * MS, 3: 6 * MS})
    even = replace(BASES[base], straggler=dict.fromkeys(range(4), 3 * MS))
    (row,) = simulated(uneven).what_if("kind=compute like=mean").to_dict("records")
    without = simulated(even).steps()["length_ns"].mean()
    assert row["predicted_step_ns"] == pytest.approx(without, rel=0.01)
    gain = row["measured_step_ns"] - without
    assert row["gain_ns"] == pytest.approx(gain, rel=0.05, abs=100_000)


@nightly
def test_faster_kernels_and_faster_links(simulated: Simulated) -> None:
    fast = replace(FSDP, compute_scale=0.6), replace(FSDP, beta_gbps=440)
    scenarios = "kind=compute times=0.6", "gbps=440 alpha_us=12"
    found = simulated(FSDP).what_if(*scenarios)["predicted_step_ns"]
    assert len(found) == 3
    for config, step in zip(fast, found[:2], strict=True):
        assert step == pytest.approx(simulated(config).steps()["length_ns"].mean(), rel=0.002)


@first_at_once()
@pytest.mark.parametrize(
    ("name", "scenario", "slept"),
    [
        ("two_levels_gloo", "rank=3 like=median", 40),
        ("range_named_gloo", "rank=1 like=median", 30),
        ("second_straggler_gloo", "rank=3 like=median", 25),
    ],
)
def test_what_a_rank_sleeps_is_gained_in_the_last_step_too(
    name: str, scenario: str, slept: int, recorded: Recorded
) -> None:
    """What was wrong: no operator ends the sleep of the last step, so that of 40 ms in each of four
    steps 32.6 ±23.7 were gained, of 30 ms 22.7 ±23.1, of 25 ms 18.0 ±15.2."""
    (row,) = recorded(name).what_if(scenario).to_dict("records")
    assert row["gain_ns"] / MS == pytest.approx(slept, rel=0.08)
    assert row["uncertainty_ns"] < row["gain_ns"] / 4


@nightly
def test_two_sizes_tell_no_bandwidth_of_a_latency(recorded: Recorded) -> None:
    """What was wrong: 22 and 25 kB take 1.5 and 3.3 ms, by a line through both 12.9 ms less than no
    latency, and 1.5 MB/s. 8.7 ms of a step of 43 were gained by 1 GB/s."""
    rows = recorded("odd_groups_gloo").what_if("gbps=1", "alpha_us=5")
    wider, sooner = rows["gain_ns"][:2] / MS
    assert 0 < wider < 3 < 5 < sooner


@nightly
def test_operators_and_classes_are_selected(simulated: Simulated) -> None:
    run = simulated(FOUR_RANKS)
    found = run.what_if("class=gemm times=0.5", "op=aten::mm times=0.5", "kind=compute times=0.5")
    gains = found["gain_ns"].tolist()
    share = run.sql(
        "SELECT class, sum(duration_ns) AS sum_ns FROM gpu_ops"
        " WHERE category = 'compute' GROUP BY class"
    ).set_index("class")["sum_ns"]
    assert 0 < gains[1] <= gains[0] < gains[2]
    # what the main stream is busy with is what steps take
    assert gains[0] / gains[2] == pytest.approx(share["gemm"] / share.sum(), rel=0.1)


@nightly
def test_what_is_slow_is_seen_without_records_of_waits(simulated: Simulated) -> None:
    for config, scenario in (
        (SLOW_GPU, "rank=2 kind=compute like=median"),
        (SLOW_DATA, "rank=1 kind=data_loading like=median"),
        (SLOW_HOST, "rank=3 kind=launch like=median"),
    ):
        run = simulated(config)
        worst, other = run.what_if(scenario, scenario.replace("rank=", "rank=0,"))["gain_ns"][:2]
        assert worst > 0.1 * run.steps()["length_ns"].mean()
        assert other == pytest.approx(worst, rel=0.05)


@nightly
def test_a_host_bound_run_gains_by_its_launches(recorded: Recorded) -> None:
    run = recorded("kineto/megatron_tp8")
    rows = run.what_if("rank=0 kind=launch times=0", "rank=6 kind=launch times=0")
    step = rows["measured_step_ns"][0]
    launches = run.what_if("kind=launch times=0")["gain_ns"][0]
    delays = run.what_if("kind=launch times=0; kind=device_delay times=0")["gain_ns"][0]
    lost = run.breakdown()
    late = run.stragglers().set_index("rank")
    # rank 6 is nearly as late as rank 0: one alone gains little, both more than their sum
    assert rows["gain_ns"][0] == pytest.approx(6_953_500, abs=1000)  # clocks move by ns
    assert abs(rows["gain_ns"][1]) < 10_000
    assert rows["gain_ns"][2] > rows["gain_ns"][:2].sum()
    assert launches > step / 2
    # without the time of all hosts nothing is left of what rank 0, which waits least, waits and
    # idles, but how its GPU starts; ranks 0 and 6 are the origin of the waiting
    most = (lost["exposed_wait_ns"] + lost["idle_ns"]).min()
    assert 0.98 * most < launches <= delays < most
    assert late["origin_wait_ns"].sum() == late["waited_ns"].sum()
    assert late.loc[[0, 6], "origin_wait_ns"].sum() > 0.85 * late["waited_ns"].sum()


def test_bandwidth_is_that_of_matched_collectives(
    database_of: Callable[..., Path], fixtures: Path, tmp_path: Path
) -> None:
    path = tmp_path / "run.duckdb"
    shutil.copy(database_of(fixtures / "broadcasts_gloo"), path)
    with duckdb.connect(str(path)) as con:
        con.execute(
            "DELETE FROM base.matches WHERE call_id IN (SELECT call_id FROM base.collective_calls"
            " WHERE rank = 2 AND op = 'broadcast' AND step = 5)"
        )
    with traceweave.open(path) as run:
        assert len(run.sql("FROM collectives WHERE match = 'unmatched'")) == 2
        (row,) = run.what_if("gbps=100 alpha_us=5").to_dict("records")
    assert row["gain_ns"] > 0


# what was wrong: 0.4 ms, and rank 2 21.9 ms off; README.md: 17.5 ms
def test_who_passes_a_broadcast_on_is_waited_for(
    database_of: Callable[..., Path], fixtures: Path
) -> None:
    with traceweave.open(database_of(fixtures / "relayed_gloo")) as run:
        (row,) = run.what_if("rank=1 like=median").to_dict("records")
        assert not run.sql("FROM clocks")["offset_ns"].any()
    assert 15 * MS < row["gain_ns"] < 18 * MS


def test_the_command_and_python_say_the_same(
    database_of: Callable[..., Path], fixtures: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = database_of(fixtures / "ddp_gloo_straggler")
    scenario = "rank=2 kind=data_loading like=median"
    assert main(["what-if", str(path), scenario, "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert list(row)[:7] == [
        "scenario", "measured_step_ns", "replayed_step_ns", "predicted_step_ns", "gain_ns",
        "uncertainty_ns", "bottleneck",
    ]  # fmt: skip
    with traceweave.open(path) as run:
        (same,) = run.stream_what_if(scenario).read_all().to_pylist()
        assert same == row
        # it sleeps 40 ms in each step, of which others wait for most
        assert 25 * MS < row["gain_ns"] < 42 * MS
        by_rank = run.what_if(scenario, by="rank")
        assert by_rank["gain_ns"].mean() == pytest.approx(row["gain_ns"], abs=2)
        path_after = run.what_if(scenario, by="path")
        assert path_after["share"].sum() == pytest.approx(1)
        first = path_after.iloc[0]
        assert row["bottleneck"].startswith(first["kind"])
        assert f"of rank {first['rank']}" in row["bottleneck"]
        with pytest.raises(UsageError, match="no view 'ranks'; did you mean 'rank'"):
            run.what_if(scenario, by="ranks")


def test_the_views_of_the_command_are_those_of_python() -> None:
    assert what_if.VIEWS == answers.VIEWS


@nightly
def test_a_prediction_is_held_against_the_run_recorded_after_the_fix(
    fixtures: Path, database_of: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Against itself nothing was gained; the planted 40 ms are more than the prediction is off."""
    path = str(database_of(fixtures / "ddp_gloo_straggler"))
    assert main(["what-if", path, "rank=2 like=median", "--verify", path, "-f", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["verified_step_ns"] == row["measured_step_ns"]
    assert row["verified_gain_ns"] == 0
    assert row["gain_ns"] > row["uncertainty_ns"] > 0
    assert row["within_uncertainty"] is False
    command = ["what-if", path, "rank=2 like=median", "--by", "rank", "--verify", path]
    assert main(command) == 2
    assert "by is 'scenario' then" in capsys.readouterr().err


@nightly
def test_where_a_rank_is_slow_in_some_steps_only_those_get_faster(
    empty_run: duckdb.DuckDBPyConnection,
) -> None:
    """1.31 times slower from the third of six steps on: four steps gain 31 ms each."""
    run = Run(empty_run, unit=US)
    run.slow_from_the_third()
    model = Model(run.con)
    nodes = model.changed(*model.parsed("rank=1 kind=compute like=median")).nodes
    own = (nodes.rank == 1) & (nodes.sort == Sort.COMPUTE)
    lengths = [int(nodes.length[own & (nodes.step == step)][0]) for step in range(6)]
    assert lengths == pytest.approx([100 * MS - 2000] * 6, abs=2)


def test_steps_that_drift_tell_less_than_as_many_that_do_not() -> None:
    """Two batches of two: their means are 2 apart, a deviation of sqrt(2) and an error of 1; single
    steps, of deviation sqrt(4 / 3), have one of sqrt(1 / 3), which is what is left in turns."""
    assert standard_error(np.array([0.0, 0.0, 2.0, 2.0])) == pytest.approx(1)
    assert standard_error(np.array([0.0, 2.0, 0.0, 2.0])) == pytest.approx(3**-0.5)


def test_what_all_run_as_often_is_divided_place_by_place() -> None:
    """Both ranks run thing 0 twice, at places 0 and 1 by their starts; only rank 0 runs thing 1."""
    thing, rank = np.array([0, 0, 1, 0, 0]), np.array([0, 0, 0, 1, 1])
    step, start = np.zeros(5, np.int64), np.array([5, 0, 7, 1, 9])
    assert one_by_one(thing, rank, step, start).tolist() == [1, 0, 2, 0, 1]
    # in step 1 rank 1 does not: it is one thing
    more = one_by_one(
        *(np.append(a, b) for a, b in ((thing, 0), (rank, 0), (step, 1), (start, 20)))
    )
    assert more.tolist() == [0, 0, 2, 0, 0, 0]
