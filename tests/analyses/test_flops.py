import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.flops_run import counted, gpu_named, kernel
from tests.marks import nightly


def _a_run(build: Builder) -> None:
    """100 us of one gemm (50 GFLOP on 100 MB), 100 us of one that is bound by memory (2 GFLOP on
    100 MB), 50 us of something else; an A100's peaks are 312 TFLOP/s and 2039 GB/s."""
    build.rank(0)
    gpu_named(build, 0, "NVIDIA A100-SXM4-80GB")
    counted(build, (0, 100), flops=50 * 10**9, gigabytes=0.1, name="triton_big")
    kernel(build, 10, (0, 100_000))
    counted(build, (200, 300), flops=2 * 10**9, gigabytes=0.1, name="triton_small")
    kernel(build, 210, (100_000, 200_000))
    kernel(build, 400, (200_000, 250_000), class_="norm")


def test_rates_and_roofs_by_hand(build: Builder) -> None:
    _a_run(build)
    big, small, rest = rows(build.con, "flops")
    same = {"gpu_name": "NVIDIA A100-SXM4-80GB", "dims": None, "kernels": 1}
    peaks = {"peak_tflops": 312.0, "peak_gbps": 2039.0, "class": "gemm", "dtype": "bf16"}
    assert big == pytest.approx(
        same | peaks | {
            "op": "triton_big", "calls": 1, "device_ns": 100_000, "share": 0.4,
            "flops": 5e10, "bytes": 1e8,
            "tflops": 500.0,  # 50 GFLOP in 100 us
            "intensity": 500.0,  # 50e9 / 0.1e9
            "roof_tflops": 312.0,  # 500 * 2039 / 1000 = 1019.5 is above the peak
            "peak_fraction": 500 / 312, "roof_fraction": 500 / 312, "bound": "compute",
            "note": "above the peak: less was computed than counted, or the peak is another one",
        }
    )  # fmt: skip
    assert small == pytest.approx(
        same | peaks | {
            "op": "triton_small", "calls": 1, "device_ns": 100_000, "share": 0.4,
            "flops": 2e9, "bytes": 1e8,
            "tflops": 20.0,
            "intensity": 20.0,
            "roof_tflops": 40.78,  # 20 FLOP per byte * 2039 GB/s
            "peak_fraction": 20 / 312, "roof_fraction": 20 / 40.78, "bound": "memory",
            "note": None,
        }
    )  # fmt: skip
    unknown = dict.fromkeys(
        ("op", "dtype", "calls", "flops", "bytes", "tflops", "intensity", "peak_tflops",
         "peak_gbps", "roof_tflops", "peak_fraction", "roof_fraction", "bound")
    )  # fmt: skip
    assert rest == unknown | same | {
        "class": "norm", "device_ns": 50_000, "share": 0.2,
        "note": "in no operator with a formula: not counted",
    }  # fmt: skip


def test_peaks_can_be_given(build: Builder) -> None:
    _a_run(build)
    big, small, rest = rows(build.con, "flops", peak_tflops=1000, peak_gbps=100)
    assert (big["peak_tflops"], big["roof_tflops"], big["bound"]) == (1000.0, 50.0, "memory")
    assert small["roof_tflops"] == 2.0
    assert rest["peak_tflops"] is None


@nightly
def test_calls_are_put_together_by_operator_shape_or_class(build: Builder) -> None:
    build.rank(0)
    for at, dims, class_ in ((0, "[[1]]", "gemm"), (100, "[[2]]", "gemm"), (200, "[[2]]", "conv")):
        counted(build, (at, at + 50), flops=10 + at, dims=dims)
        kernel(build, at + 1, (1000 + at, 1010 + at), class_=class_)
    per = {
        kind: [(r["op"], r["dims"], r["class"], r["calls"], r["flops"]) for r in got]
        for kind in ("op", "shape", "class")
        for got in [rows(build.con, "flops", per=kind)]
    }
    assert per == {
        "op": [("triton_tem_mm", None, None, 3, 330.0)],
        "shape": [
            ("triton_tem_mm", "[[2]]", None, 2, 320.0),
            ("triton_tem_mm", "[[1]]", "gemm", 1, 10.0),
        ],
        "class": [(None, None, "conv", 1, 210.0), (None, None, "gemm", 2, 120.0)],
    }


def test_a_gpu_that_is_not_in_the_list_has_no_peak(build: Builder) -> None:
    build.rank(0)
    gpu_named(build, 0, "Abacus 3000")
    counted(build, (0, 100), flops=1000, gigabytes=1e-6)
    kernel(build, 10, (0, 100))
    (row,) = rows(build.con, "flops")
    assert (row["tflops"], row["peak_tflops"], row["roof_tflops"], row["bound"], row["note"]) == (
        0.01, None, None, None, "no peak of bf16 known for Abacus 3000: set peak_tflops",
    )  # fmt: skip


def test_a_gpu_whose_name_does_not_tell_its_memory_has_no_roof(build: Builder) -> None:
    build.rank(0)
    gpu_named(build, 0, "NVIDIA A100-PG509-200")
    counted(build, (0, 100), flops=1000, gigabytes=1e-6)
    kernel(build, 10, (0, 100))
    (row,) = rows(build.con, "flops")
    assert (row["peak_tflops"], row["peak_gbps"], row["roof_tflops"], row["note"]) == (
        312.0, None, None, "memory bandwidth of NVIDIA A100-PG509-200 not known: set peak_gbps",
    )  # fmt: skip


def test_a_rank_without_a_gpu_has_counts_and_no_rates(build: Builder) -> None:
    build.rank(0)
    counted(build, (0, 100), flops=1000)
    (row,) = rows(build.con, "flops", peak_tflops=1)
    assert (row["flops"], row["kernels"], row["device_ns"], row["tflops"], row["note"]) == (
        1000.0, None, None, None,
        "no GPU ops: no rate; memory bandwidth of this device not known: set peak_gbps",
    )  # fmt: skip
