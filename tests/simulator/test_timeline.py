"""The simulated timeline obeys CUDA: causes come first, streams and collectives are in order."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.marks import examples
from traceweave_simulator import Clock, Config, Gap, Run, Truth, simulate
from traceweave_simulator.errors import SimulationError
from traceweave_simulator.timeline import NEVER

GAPS = st.lists(
    st.builds(
        Gap,
        cause=st.sampled_from(["launch_bound", "sync", "dependency", "data_loading"]),
        duration_ns=st.integers(1_000, 3_000_000),
        step=st.sampled_from([None, 0, 1]),
        ranks=st.sampled_from([None, (0,), (1, 3)]),
    ),
    max_size=2,
).map(tuple)

CONFIGS = st.builds(
    Config,
    ranks=st.just(4),
    steps=st.integers(1, 2),
    layers=st.integers(2, 3),
    seed=st.integers(0, 1000),
    parallelism=st.sampled_from(["ddp", "fsdp", "tp", "pp"]),
    group_size=st.just(2),
    overlap=st.booleans(),
    microbatches=st.integers(1, 3),
    straggler=st.dictionaries(st.integers(0, 3), st.integers(0, 2_000_000), max_size=2),
    slow_host=st.dictionaries(st.integers(0, 3), st.integers(0, 20_000), max_size=1),
    end_jitter_ns=st.sampled_from([0, 5_000]),
    ring_bias_ns=st.sampled_from([0, 2_000]),
    sync_every_step=st.booleans(),
    kernel_spacing_ns=st.sampled_from([0, 800]),
    extra_host_ops=st.integers(0, 1),
    gaps=GAPS,
)

runs = settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


def present(run: Run, rank: int) -> np.ndarray:
    return np.flatnonzero(run.gpu.start[:, rank] != NEVER)


@runs
@given(CONFIGS)
def test_nothing_starts_before_its_cause(config: Config) -> None:
    run = simulate(config)
    for rank in run.ranks:
        ops = present(run, rank)
        start, end = run.gpu.start[ops, rank], run.gpu.end[ops, rank]
        launch = run.calls.start[run.gpu_call[ops], rank]
        assert (start >= launch + config.launch_latency_ns).all()
        assert (end > start).all()
        for row, until in run.dependency.items():
            if run.gpu.start[row, rank] != NEVER:
                assert run.gpu.start[row, rank] >= until[rank]


@runs
@given(CONFIGS)
def test_streams_run_in_order_of_launch(config: Config) -> None:
    run = simulate(config)
    streams = np.array([kind.stream for kind in run.gpu.kinds])[run.gpu.kind]
    for rank in run.ranks:
        ops = present(run, rank)
        for stream in np.unique(streams[ops]):
            mine = ops[streams[ops] == stream]
            launches = run.calls.start[run.gpu_call[mine], rank]
            assert (np.diff(launches) > 0).all()
            gaps = run.gpu.start[mine[1:], rank] - run.gpu.end[mine[:-1], rank]
            assert (gaps >= config.kernel_spacing_ns).all()


@runs
@given(CONFIGS)
def test_a_collective_ends_nowhere_before_its_last_member_has_started(config: Config) -> None:
    table = Truth(simulate(config)).collectives
    by = table.groupby("collective_id")
    assert (by["end_ns"].min() > by["start_ns"].max()).all()
    # every member is late by at most the jitter and the ring's bias
    assert (
        by["end_ns"].max() - by["end_ns"].min() <= config.end_jitter_ns + config.ring_bias_ns
    ).all()
    assert (table["wait_ns"] >= 0).all()
    assert (by["wait_ns"].min() == 0).all()


@runs
@given(CONFIGS)
def test_host_ranges_and_calls_nest_and_take_turns(config: Config) -> None:
    run = simulate(config)
    threads = np.array([kind.thread for kind in run.ranges.kinds])[run.ranges.kind]
    calls_of = np.array([kind.thread for kind in run.calls.kinds])[run.calls.kind]
    for rank in run.ranks:
        for thread in (0, 1):
            spans = [
                span
                for table, chosen in (
                    (run.ranges, threads == thread),
                    (run.calls, calls_of == thread),
                )
                for span in zip(
                    table.start[chosen, rank].tolist(),
                    table.end[chosen, rank].tolist(),
                    strict=True,
                )
                if span[0] != NEVER
            ]
            open_until: list[int] = []
            for start, end in sorted(spans, key=lambda s: (s[0], -s[1])):
                assert end > start
                while open_until and open_until[-1] <= start:
                    open_until.pop()
                assert not open_until or end <= open_until[-1]
                open_until.append(end)


@runs
@given(CONFIGS)
def test_a_synchronizing_call_returns_after_the_work_it_waits_for(config: Config) -> None:
    run = simulate(config)
    names = np.array([kind.name for kind in run.calls.kinds])[run.calls.kind]
    streams = np.array([kind.stream for kind in run.gpu.kinds])[run.gpu.kind]
    for rank in run.ranks:
        launches = run.calls.start[run.gpu_call, rank]
        for row in np.flatnonzero(np.char.endswith(names, "Synchronize")):
            began, returned = run.calls.start[row, rank], run.calls.end[row, rank]
            if began == NEVER:
                continue
            awaited = (launches < began) & (run.gpu.start[:, rank] != NEVER)
            if names[row] == "cudaStreamSynchronize":
                awaited &= streams == 7
            assert (run.gpu.end[awaited, rank] < returned).all()


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    config = Config(ranks=4, steps=2, layers=2, end_jitter_ns=3_000)
    first, again = simulate(config), simulate(config)
    other = simulate(Config(ranks=4, steps=2, layers=2, end_jitter_ns=3_000, seed=1))
    assert first.gpu_ops.equals(again.gpu_ops)
    assert first.host_ops.equals(again.host_ops)
    assert not first.gpu_ops["start_ns"].equals(other.gpu_ops["start_ns"])


def test_without_jitter_every_rank_does_the_same_at_the_same_time() -> None:
    run = simulate(Config(ranks=4, steps=2, layers=2).quiet())
    assert (run.gpu.start == run.gpu.start[:, :1]).all()
    assert (Truth(run).collectives["wait_ns"] == 0).all()
    # 4 ranks: alpha + S * 2 * 3/4 / 220 GB/s
    sizes = Truth(run).collectives.groupby("bytes")["duration_ns"].agg(["min", "max"])
    assert sizes.loc[100_663_296].tolist() == [12_000 + round(100_663_296 * 1.5 / 220)] * 2


def test_a_straggler_computes_exactly_its_extra_time_longer() -> None:
    base = Config(ranks=2, steps=2, layers=2).quiet()
    slow = simulate(Config(**{**vars(base), "straggler": {1: 1_000_003}}))
    compute = Truth(slow).breakdown("device").set_index(["rank", "step"])["compute_ns"]
    assert (compute[1] - compute[0]).tolist() == [1_000_003, 1_000_003]
    late = Truth(slow).collectives.query("bytes > 4 and wait_ns > 0")
    assert set(late["last_rank"]) == {1}
    assert set(late["rank"]) == {0}


def test_without_overlap_no_gradient_hides_behind_compute() -> None:
    config = Config(ranks=2, steps=1, layers=4, overlap=False)
    assert Truth(simulate(config)).breakdown()["overlap_ns"].tolist() == [0, 0]
    overlapping = Truth(simulate(Config(ranks=2, steps=1, layers=4))).breakdown()
    assert (overlapping["comm_hidden_fraction"] > 0.4).all()


def test_groups_cover_tensor_and_data_parallel_ranks() -> None:
    run = simulate(Config(ranks=4, steps=1, layers=2, parallelism="tp", group_size=2))
    assert [(g.name, g.description, g.ranks) for g in run.groups] == [
        ("0", "default_pg", (0, 1, 2, 3)),
        ("1", "mesh_tp", (0, 1)),
        ("2", "mesh_tp", (2, 3)),
        ("3", "mesh_dp", (0, 2)),
        ("4", "mesh_dp", (1, 3)),
    ]
    assert set(Truth(run).collectives["group"]) == {"0", "1", "2", "3", "4"}


def test_a_pipeline_pairs_each_send_with_a_recv_of_the_next_stage() -> None:
    run = simulate(
        Config(ranks=4, steps=1, layers=2, parallelism="pp", group_size=2, microbatches=2)
    )
    p2p = Truth(run).collectives.query("op in ('send', 'recv')")
    pairs = (
        p2p.sort_values("op").groupby("collective_id").agg(op=("op", tuple), rank=("rank", tuple))
    )
    assert set(pairs["op"]) == {("recv", "send")}
    # forward 0 -> 2 and 1 -> 3, backward the other way; twice each (microbatches)
    assert sorted(pairs["rank"]) == [(0, 2)] * 2 + [(1, 3)] * 2 + [(2, 0)] * 2 + [(3, 1)] * 2


def test_sequence_numbers_agree_on_all_members_and_rise_within_a_group() -> None:
    table = Truth(
        simulate(Config(ranks=4, steps=2, layers=2, parallelism="tp", group_size=2))
    ).collectives
    assert (table.groupby("collective_id")["seq"].nunique() == 1).all()
    for _, of_rank in table.sort_values("start_ns").groupby(["group", "rank"]):
        assert of_rank["seq"].tolist() == list(range(501, 501 + len(of_rank)))


def test_a_cut_window_loses_exactly_the_first_or_last_collectives() -> None:
    config = Config(ranks=3, steps=2, layers=4)
    whole = Truth(simulate(config)).collectives["recorded"].sum() // 3
    run = simulate(Config(**{**vars(config), "window_cut": {1: 3, 2: -2}}))
    assert Truth(run).collectives.groupby("rank")["recorded"].sum().tolist() == [
        whole, whole - 3, whole - 2,
    ]  # fmt: skip
    assert Truth(run).steps.groupby("rank")["step"].agg(list).tolist() == [[1, 2], [2], [1, 2]]


def test_clocks_are_shared_by_the_ranks_of_a_host() -> None:
    config = Config(ranks=4, hosts=2, clock_offset_ns=1_000_000, clock_drift_ppm=20, seed=3)
    clocks = config.rank_clocks()
    assert clocks[0] == clocks[1] != clocks[2] == clocks[3]
    assert all(abs(c.offset_ns) <= 1_000_000 and abs(c.drift_ppm) <= 20 for c in clocks)
    own = Config(ranks=3, clock_offset_ns=1_000, clocks={1: Clock(offset_ns=7)})
    assert own.rank_clocks()[1] == Clock(offset_ns=7)
    assert [own.host_of(r) for r in range(3)] == [0, 1, 2]


def test_a_clock_shows_offset_drift_and_wander() -> None:
    elapsed = np.array([0, 1_000_000_000, 2_500_000_000])
    clock = Clock(offset_ns=-5, drift_ppm=10.0, wander_ns=100, wander_period_ns=10_000_000_000)
    # drift: 10 us per second; wander: 100 ns * sin(36 deg) = 59, a quarter of the period = 100
    assert clock.local(elapsed, 1_000).tolist() == [995, 1_000_010_995 + 59, 2_500_025_995 + 100]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 0}, "ranks must be at least 1; it is 0."),
        ({"parallelism": "zero"}, "parallelism 'zero' is unknown; one of ddp, fsdp, tp, pp."),
        ({"ranks": 6, "hosts": 4}, "6 ranks cannot be dealt evenly to 4 hosts."),
        (
            {"ranks": 6, "parallelism": "tp", "group_size": 4},
            "group_size 4 does not divide 6 ranks.",
        ),
        ({"parallelism": "pp", "layers": 2}, "at least 2 stages and a layer for each"),
        ({"gaps": (Gap("sleep", 5),)}, "gap cause 'sleep' is unknown"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_simulated_is_refused_in_one_line(
    wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(SimulationError) as caught:
        Config(**wrong)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_window_without_collectives_is_refused() -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2, window_cut={0: 99}))
    with pytest.raises(SimulationError, match="window_cut of rank 0 leaves none"):
        run.window(0)
