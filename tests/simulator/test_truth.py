"""The truth is plain arithmetic; here it is checked by hand and by counting nanoseconds."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from tests.simulator.test_timeline import CONFIGS, runs
from traceweave_simulator import Clock, Config, Gap, simulate
from traceweave_simulator.errors import SimulationError
from traceweave_simulator.truth import BREAKDOWN_COLUMNS, GAP_COLUMNS, Truth, covered, union


def test_union_merges_touching_overlapping_and_nested_intervals() -> None:
    assert union([(5, 9), (0, 2), (2, 3), (6, 7), (8, 12), (20, 21)]) == [(0, 3), (5, 12), (20, 21)]
    assert covered([(0, 3), (5, 12), (20, 21)], (2, 20)) == 1 + 7


@runs
@given(CONFIGS)
def test_the_parts_of_a_breakdown_sum_to_the_window(config: Config) -> None:
    truth = Truth(simulate(config))
    for window in ("device", "host", "span"):
        table = truth.breakdown(window)
        assert tuple(table.columns) == BREAKDOWN_COLUMNS
        parts = table[["compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns"]].sum(axis=1)
        assert (parts == table["window_ns"]).all()
        assert (table[["compute_ns", "overlap_ns", "exposed_comm_ns", "idle_ns"]] >= 0).all(
            axis=None
        )


@runs
@given(CONFIGS)
def test_device_windows_tile_the_span_and_gaps_are_its_idle_time(config: Config) -> None:
    truth = Truth(simulate(config))
    device, span = truth.breakdown("device"), truth.breakdown("span")
    for column in ("window_ns", "compute_ns", "comm_ns", "memory_ns", "idle_ns"):
        assert device.groupby("rank")[column].sum().tolist() == span[column].tolist()
    gaps = truth.gaps()
    assert tuple(gaps.columns) == GAP_COLUMNS
    idle = gaps.groupby(["rank", "step"])["duration_ns"].sum()
    expected = device.set_index(["rank", "step"])["idle_ns"]
    assert idle.reindex(expected.index, fill_value=0).tolist() == expected.tolist()


def test_breakdown_equals_a_count_of_nanoseconds() -> None:
    run = simulate(
        Config(
            ranks=1, steps=1, layers=1, compute_scale=0.01, layer_bytes=4096, data_loading_ns=5_000
        )
    )
    ops = run.gpu_ops
    origin = ops["start_ns"].min()
    length = int(ops["end_ns"].max() - origin)
    busy = {name: np.zeros(length, dtype=bool) for name in ("compute", "communication", "memory")}
    for row in ops.itertuples():
        busy[row.category][row.start_ns - origin : row.end_ns - origin] = True
    compute, comm, memory = busy.values()
    answer = Truth(run).breakdown("device").iloc[0]
    assert answer["compute_ns"] == compute.sum()
    assert answer["comm_ns"] == comm.sum()
    assert answer["overlap_ns"] == (compute & comm).sum()
    assert answer["exposed_memory_ns"] == (memory & ~compute & ~comm).sum()
    assert answer["idle_ns"] == (~(compute | comm | memory)).sum()


@pytest.mark.parametrize(
    ("cause", "scope"),
    [
        ("launch_bound", "device"),
        ("sync", "device"),
        ("data_loading", "device"),
        ("dependency", "compute_stream"),
    ],
)
def test_an_injected_gap_is_found_with_its_cause_rank_and_step(cause: str, scope: str) -> None:
    gap = Gap(cause, 5_000_000, step=1, ranks=(1,))  # type: ignore[arg-type]
    table = Truth(simulate(Config(ranks=2, steps=3, layers=4, gaps=(gap,)))).gaps(scope)  # type: ignore[arg-type]
    # what is left of the gap once the launch has returned is the kernel's own delay
    mine = table[(table["injected"] == cause) & (table["rank"] == 1)]
    mine = mine[mine["cause"] != "kernel_delay"]
    assert mine["step"].tolist() == ([1] if cause == "data_loading" else [2])
    assert mine["cause"].tolist() == [cause]
    assert (mine["duration_ns"] >= 4_900_000).all()


def test_idle_time_grows_by_the_injected_gap() -> None:
    quiet = Config(ranks=1, steps=2, layers=2, gaps=(Gap("launch_bound", 0, step=1),)).quiet()
    longer = Config(**{**vars(quiet), "gaps": (Gap("launch_bound", 700_000, step=1),)})
    before, after = (Truth(simulate(c)).breakdown("device") for c in (quiet, longer))
    assert (after["idle_ns"] - before["idle_ns"]).tolist()[0] == 0
    grown = (after["idle_ns"] - before["idle_ns"]).tolist()[1]
    # the host's pause begins while the device still works on the kernel before it
    assert 700_000 - 100_000 < grown <= 700_000


def test_true_clocks_bring_every_rank_on_the_reference_clock() -> None:
    clocks = {0: Clock(1_000, 5.0), 1: Clock(-2_000_000, -12.0), 2: Clock(0, 30.0)}
    run = simulate(Config(ranks=3, steps=2, layers=2, clocks=clocks))
    elapsed = run.gpu.start[:, 0]
    reference = run.local(0, elapsed)
    table = Truth(run).clocks().set_index("rank")
    assert table.loc[0, ["offset_ns", "drift_ppm"]].tolist() == [0, 0.0]
    for rank in run.ranks:
        local, row = run.local(rank, elapsed), table.loc[rank]
        drift = np.rint(row["drift_ppm"] * 1e-6 * (local - int(row["reference_local_ns"]))).astype(
            np.int64
        )
        assert np.abs(local + int(row["offset_ns"]) + drift - reference).max() <= 3


def test_wait_transfer_and_last_rank_of_a_collective() -> None:
    run = simulate(Config(ranks=3, steps=1, layers=2, straggler={2: 900_000}, end_jitter_ns=500))
    for _, of in Truth(run).collectives.groupby("collective_id"):
        last = of["start_ns"].max()
        assert of["wait_ns"].tolist() == (last - of["start_ns"]).tolist()
        assert set(of["transfer_ns"]) == {of["end_ns"].max() - last}
        assert set(of["last_rank"]) == {of.loc[of["start_ns"].idxmax(), "rank"]}


def test_steps_match_the_windows_of_the_breakdown() -> None:
    run = simulate(Config(ranks=2, steps=3, layers=2, first_step=7))
    steps, table = Truth(run).steps, Truth(run).breakdown("device")
    assert steps["step"].tolist() == [7, 8, 9] * 2
    windows = steps["device_end_ns"] - steps["device_start_ns"]
    pd.testing.assert_series_equal(
        windows, table["window_ns"], check_names=False, check_dtype=False
    )
    host = Truth(run).breakdown("host")
    assert host["window_ns"].tolist() == steps["duration_ns"].tolist()


def test_the_truth_of_a_benchmark_is_refused() -> None:
    run = simulate(Config(ranks=2, steps=1, layers=2))
    object.__setattr__(run.config, "ranks", 50_000)
    with pytest.raises(SimulationError, match="takes too long"):
        Truth(run)
