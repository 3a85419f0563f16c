"""What analyses answer of recorded runs, and of simulated ones whose truth is known."""

import pytest

from tests.conftest import Simulated
from tests.marks import first_at_once, nightly
from tests.simulated_runs import SLOW_GPU
from traceweave_simulator import Config, Gap, Truth, simulate


@first_at_once()
@pytest.mark.parametrize("window", ["device", "host", "span"])
def test_it_is_what_was_simulated(simulated: Simulated, window: str) -> None:
    got = simulated(SLOW_GPU).pop(window=window)
    truth = Truth(simulate(SLOW_GPU)).breakdown(window)  # type: ignore[arg-type]
    by = truth.groupby("step", dropna=False)
    balance = by["compute_ns"].mean() / by["compute_ns"].max()
    efficiency = by["compute_ns"].mean() / by["window_ns"].max()
    # clocks are fitted, so a window may be a nanosecond or two off
    assert got["load_balance"].tolist() == pytest.approx(balance.tolist(), rel=1e-5)
    assert got["parallel_efficiency"].tolist() == pytest.approx(efficiency.tolist(), rel=1e-5)
    assert set(got["busiest_rank"]) == {2}


@nightly
def test_simulated_stalls_of_single_steps_are_found(simulated: Simulated) -> None:
    stalls = (Gap("sync", 6_000_000, step=1), Gap("data_loading", 8_000_000, step=4))
    config = Config(ranks=2, steps=7, layers=2, gaps=stalls, first_step=10)
    found = simulated(config).analyze("slow_steps", window="host").sort_values(["step", "rank"])
    assert found["step"].tolist() == [11, 11, 14, 14]
    assert found["grew"].tolist() == ["idle: sync"] * 2 + ["idle: data_loading"] * 2
    put_in = [6_000_000] * 2 + [8_000_000] * 2
    assert (found["grew_ns"] - put_in).abs().max() < 600_000
    assert found["slow_ranks"].tolist() == [2] * 4


@nightly
def test_a_simulated_transformer_by_hand(simulated: Simulated) -> None:
    layers = 2
    # tokens x width: products from width to 3, 1 and 4 times it and from 4 times it, each once
    # forward and twice backward; attention of every token with every token, and 5/2 of it backward
    tokens, width, sequences = 4096, 2048, 2
    products = 2 * tokens * width * (3 + 1 + 4 + 4) * width
    attention = 4 * (tokens // sequences) ** 2 * sequences * width
    flops = layers * (3 * products + 7 * attention // 2)
    found = simulated(Config(ranks=1, steps=2, layers=layers)).mfu()
    steps = found[found["step"].notna()]
    assert steps["model_flops"].tolist() == [flops] * 2
    of_peak = flops / (steps["window_ns"] * 1e-9) / (steps["peak_tflops"] * 1e12)
    assert steps["mfu"].tolist() == pytest.approx(of_peak.tolist())
    assert set(steps["gpu_name"]) == {"NVIDIA H100 80GB HBM3"}
