from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.flops_run import counted, gpu_named, kernel
from tests.conftest import Simulated
from tests.marks import nightly
from traceweave_simulator import Config


def _two_steps(build: Builder, rank: int = 0, gpu_name: str = "NVIDIA H200") -> None:
    """Steps of 10 us and 20 us; in each 4 GFLOP of model, in the second 1 GFLOP of optimizer."""
    build.rank(rank)
    gpu_named(build, rank, gpu_name)
    build.step(rank, 1, (0, 9_000), (1_000, 11_000))
    build.step(rank, 2, (9_000, 19_000), (11_000, 31_000))
    for step, at in ((1, 100), (2, 9_100)):
        counted(build, (at, at + 50), flops=4 * 10**9, rank=rank, step=step)
        kernel(build, at + 1, (at + 1_000, at + 7_000), rank=rank, step=step)
        kernel(build, at + 60, (at + 8_000, at + 10_000), rank=rank, step=step, class_="norm")
    build.host(rank, (18_000, 18_500), "Optimizer.step#Muon.step", "annotation", step=2)
    counted(build, (18_100, 18_200), flops=10**9, rank=rank, step=2)
    kernel(build, 18_101, (29_000, 31_000), rank=rank, step=2)


def _brief(build: Builder, *columns: str, **params: object) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in rows(build.con, "mfu", **params)]


def test_utilization_by_hand(build: Builder) -> None:
    _two_steps(build)
    run, whole, one, two = rows(build.con, "mfu")
    common = {
        "gpu_name": "NVIDIA H200", "dtype": "bf16", "peak_tflops": 989.5, "source": "shapes",
        "recomputed_flops": 0.0, "note": None,
    }  # fmt: skip
    assert one == pytest.approx(
        common | {
            "rank": 0, "step": 1, "windows": 1, "window_ns": 10_000,
            "model_flops": 4e9, "flops": 4e9, "optimizer_flops": 0.0,
            "model_tflops": 400.0,  # 4 GFLOP in 10 us
            "mfu": 400 / 989.5, "hfu": 400 / 989.5,
            "covered_share": 0.75,  # 6 us of 8 us of kernels
        }
    )  # fmt: skip
    assert two == pytest.approx(
        common | {
            "rank": 0, "step": 2, "windows": 1, "window_ns": 20_000,
            "model_flops": 4e9, "flops": 5e9, "optimizer_flops": 1e9,
            "model_tflops": 200.0, "mfu": 200 / 989.5, "hfu": 250 / 989.5,
            "covered_share": 0.8,  # 8 us of 10 us
        }
    )  # fmt: skip
    total = common | {
        "windows": 2, "window_ns": 30_000, "model_flops": 8e9, "flops": 9e9,
        "optimizer_flops": 1e9, "model_tflops": 8e9 / 30_000 / 1000,
        "mfu": 8e9 / 30_000 / 1000 / 989.5, "hfu": 9e9 / 30_000 / 1000 / 989.5,
        "covered_share": 14 / 18, "step": None,
    }  # fmt: skip
    assert whole == pytest.approx(total | {"rank": 0})
    assert run == pytest.approx(total | {"rank": None})


def test_gpus_of_different_models_are_measured_by_their_own_peaks(build: Builder) -> None:
    _two_steps(build, 0, "NVIDIA H200")
    _two_steps(build, 1, "NVIDIA A100-SXM4-80GB")
    run = rows(build.con, "mfu")[0]
    assert (run["rank"], run["gpu_name"], run["peak_tflops"], run["windows"]) == (
        None, None, None, 4,
    )  # fmt: skip
    assert run["mfu"] == pytest.approx(16e9 / (30e-6 * (989.5e12 + 312e12)))
    assert run["note"] is None


def test_the_model_s_flops_can_be_given_per_step_and_rank(build: Builder) -> None:
    _two_steps(build)
    columns = ("step", "source", "model_flops", "mfu", "hfu")
    got = _brief(build, *columns, model_flops=2e9, peak_tflops=1000)
    assert got == [
        (None, "parameter", 4e9, pytest.approx(4 / 30), pytest.approx(9 / 30)),
        (None, "parameter", 4e9, pytest.approx(4 / 30), pytest.approx(9 / 30)),
        (1, "parameter", 2e9, pytest.approx(0.2), pytest.approx(0.4)),
        (2, "parameter", 2e9, pytest.approx(0.1), pytest.approx(0.25)),
    ]


@nightly
def test_a_gpu_that_ran_nothing_has_no_share_in_what_the_cpu_computes(build: Builder) -> None:
    build.rank(0)
    gpu_named(build, 0, "NVIDIA H200")
    build.step(0, 1, (0, 10_000))
    counted(build, (100, 9_000), flops=10**6, step=1)
    assert _brief(build, "rank", "gpu_name", "model_flops", "mfu", "note") == [
        (rank, None, 1e6, None, "host window: no GPU ops; no peak of bf16 known for this device:"
         " set peak_tflops")
        for rank in (None, 0, 0)
    ]  # fmt: skip
    assert _brief(build, "mfu", peak_tflops=1)[0] == (pytest.approx(1e6 / 10e-6 / 1e12),)


def test_given_flops_need_no_shapes(build: Builder) -> None:
    build.rank(0)
    gpu_named(build, 0, "Tesla V100-SXM2-16GB")
    build.step(0, 1, (0, 10_000), (0, 10_000))
    build.gpu(0, (0, 5_000), step=1)
    (row, *_) = rows(build.con, "mfu", model_flops=5e8, dtype="fp16")
    assert (row["peak_tflops"], row["mfu"], row["flops"], row["hfu"], row["covered_share"]) == (
        125.0, pytest.approx(50 / 125), None, None, None,
    )  # fmt: skip
    assert row["note"] == "no operator with a formula has recorded shapes"


def test_what_is_not_known_is_null_with_a_reason(build: Builder) -> None:
    build.rank(0)
    gpu_named(build, 0, "Tesla V100-SXM2-16GB")
    build.step(0, 1, (0, 10_000), (0, 10_000))
    build.host(0, (0, 10), "aten::mm", step=1)
    kernel(build, 1, (0, 5_000), step=1)
    got = _brief(build, "rank", "source", "model_flops", "mfu", "hfu", "note")
    note = (
        "shapes not recorded: profile with record_shapes=True;"
        " data type not known: set dtype or peak_tflops"
    )
    assert got == [(rank, None, None, None, None, note) for rank in (None, 0, 0)]


def test_the_peak_of_a_type_that_the_gpu_has_none_of_is_null(build: Builder) -> None:
    _two_steps(build, gpu_name="Tesla V100-SXM2-16GB")
    assert {row[1:] for row in _brief(build, "rank", "mfu", "note")} == {
        (None, "no peak of bf16 known for Tesla V100-SXM2-16GB: set peak_tflops")
    }


def test_recomputation_is_in_hfu_and_not_in_mfu(build: Builder) -> None:
    _two_steps(build)
    build.host(0, (5_000, 6_000), "autograd::engine::evaluate_function: MmBackward0", step=1)
    counted(build, (5_100, 5_200), flops=4 * 10**9, step=1, sequence=9, depth=1)
    kernel(build, 5_101, (10_500, 11_000), step=1)
    columns = ("step", "model_flops", "flops", "recomputed_flops", "mfu", "hfu")
    assert _brief(build, *columns, peak_tflops=1000)[2] == (
        1, 4e9, 8e9, 4e9, pytest.approx(0.4), pytest.approx(0.8),
    )  # fmt: skip


def test_a_compiled_backward_has_no_hfu_unless_the_model_s_flops_are_given(build: Builder) -> None:
    _two_steps(build)
    name = "autograd::engine::evaluate_function: CompiledFunctionBackward"
    build.host(0, (5_000, 6_000), name, step=1)
    counted(build, (5_100, 5_200), flops=4 * 10**9, step=1, depth=1)
    kernel(build, 5_101, (10_500, 11_000), step=1)
    columns = ("model_flops", "recomputed_flops", "mfu", "hfu", "note")
    assert _brief(build, *columns, peak_tflops=1000)[2] == (
        8e9, None, pytest.approx(0.8), None,
        "compiled backward: what it recomputes counts as model FLOPs, hence no hfu",
    )  # fmt: skip
    assert _brief(build, "hfu", model_flops=4e9, peak_tflops=1000)[2] == (pytest.approx(0.8),)


def test_a_rank_without_steps_has_one_row_for_its_span(build: Builder) -> None:
    build.rank(0)
    counted(build, (0, 50), flops=10**6)
    kernel(build, 1, (1_000, 2_000))
    columns = ("rank", "step", "windows", "window_ns", "mfu", "note")
    note = "no steps recorded: window is the span of the rank"
    assert _brief(build, *columns, peak_tflops=1) == [
        (None, None, 1, 1_000, pytest.approx(1e6 / 1e-6 / 1e12), note),
        (0, None, 1, 1_000, pytest.approx(1e6 / 1e-6 / 1e12), note),
    ]


@nightly
def test_the_window_can_be_the_host_s_or_the_whole_span(build: Builder) -> None:
    _two_steps(build)
    assert [row[1] for row in _brief(build, "step", "window_ns", window="host")] == [
        19_000, 19_000, 9_000, 10_000,
    ]  # fmt: skip
    columns = ("rank", "step", "window_ns", "model_flops")
    assert _brief(build, *columns, window="span") == [
        (None, None, 29_900, 8e9),
        (0, None, 29_900, 8e9),
    ]


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
