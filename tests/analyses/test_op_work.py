import json
from typing import Any

import pytest

from tests.analyses.builders import Builder, rows
from tests.analyses.flops_run import counted, kernel
from tests.marks import nightly
from traceweave.analyses import formulas, placed_ops
from traceweave.analyses.runner import provide


def _brief(build: Builder, *columns: str, **params: object) -> list[tuple[Any, ...]]:
    return [
        tuple(row[column] for column in columns) for row in rows(build.con, "op_work", **params)
    ]


def test_an_operator_has_the_kernels_launched_in_its_time_on_its_thread(build: Builder) -> None:
    build.rank(0)
    op = counted(build, (10, 20), flops=1000, gigabytes=5e-7, step=3)
    kernel(build, 11, (100, 130), step=3, name="short")
    kernel(build, 12, (130, 200), step=3, name="long", class_="attention")
    kernel(build, 13, (200, 210), step=3, category="memory")
    kernel(build, 14, (300, 310), step=3, tid=2, class_="norm")
    kernel(build, 25, (310, 330), step=3, class_="norm")
    build.gpu(0, (400, 404), **{"class": "other"})
    nothing = dict.fromkeys(("op_id", "op", "dims", "dtype", "kind", "opaque", "calls"))
    left = nothing | {"flops": None, "bytes": None, "reason": None, "rank": 0}
    assert rows(build.con, "op_work") == [
        left | {"step": None, "class": "other", "kernels": 1, "device_ns": 4},
        {
            "rank": 0, "step": 3, "op_id": op, "op": "triton_tem_mm", "dims": "[[2,2],[2,2]]",
            "dtype": "bf16", "class": "attention", "kind": "model", "opaque": False, "calls": 1,
            "kernels": 3, "device_ns": 100, "flops": 1000, "bytes": 500, "reason": None,
        },
        left | {"step": 3, "class": "norm", "kernels": 2, "device_ns": 30},
    ]  # fmt: skip


def test_of_counted_operators_inside_each_other_the_outermost_counts(build: Builder) -> None:
    build.rank(0)
    counted(build, (0, 100), flops=7, name="triton_a")
    counted(build, (10, 90), flops=7, name="triton_b", depth=1)
    counted(build, (20, 80), flops=7, name="triton_c", depth=2)
    counted(build, (100, 120), flops=5, name="triton_b")
    counted(build, (30, 60), flops=3, name="triton_a", tid=2)
    got = _brief(build, "op", "flops")
    assert sorted(got) == [("triton_a", 3), ("triton_a", 7), ("triton_b", 5)]


def test_the_same_operator_inside_says_what_types_it_computed_with(build: Builder) -> None:
    build.rank(0)
    counted(build, (0, 100), flops=7, dtype="fp32", gigabytes=4e-9)
    counted(build, (10, 90), flops=7, dtype="bf16", gigabytes=2e-9, depth=1)
    assert _brief(build, "dtype", "bytes", "flops") == [("bf16", 2, 7)]


def test_the_kernel_tells_tf32_from_fp32(build: Builder) -> None:
    build.rank(0)
    for at, name in enumerate(("ampere_sgemm_128x64_tn", "cutlass_80_tensorop_s1688gemm_tf32")):
        counted(build, (100 * at, 100 * at + 50), flops=7, dtype="fp32")
        kernel(build, 100 * at + 1, (1000 + at, 1001 + at), name=name)
    assert _brief(build, "dtype") == [("fp32",), ("tf32",)]


def _backward(build: Builder, name: str = "MmBackward0", step: int = 1) -> None:
    build.host(0, (1000, 2000), f"autograd::engine::evaluate_function: {name}", step=step)


def test_what_runs_again_for_autograd_in_the_backward_is_recomputed(build: Builder) -> None:
    build.rank(0)
    counted(build, (0, 10), flops=7, step=1)
    _backward(build)
    counted(build, (1100, 1110), flops=7, step=1, depth=1, sequence=5)
    counted(build, (1200, 1210), flops=7, step=1, depth=1)
    # recorded for autograd, but never called in this forward: a gradient of a gradient
    counted(build, (1300, 1310), flops=9, dims="[[3,3],[3,3]]", step=1, depth=1, sequence=6)
    assert _brief(build, "kind", "flops", "opaque") == [
        ("model", 7, False),
        ("recomputed", 7, False),
        ("model", 7, False),
        ("model", 9, False),
    ]


def test_a_compiled_backward_is_opaque(build: Builder) -> None:
    build.rank(0)
    _backward(build, "CompiledFunctionBackward")
    counted(build, (1100, 1110), flops=7, step=1, depth=1)
    counted(build, (2100, 2110), flops=7, step=1)
    assert _brief(build, "kind", "opaque") == [("model", True), ("model", False)]


def test_products_of_an_optimizer_are_its_own(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 100), "Optimizer.step#Muon.step", "annotation")
    counted(build, (10, 20), flops=7, depth=1)
    counted(build, (110, 120), flops=8)
    assert _brief(build, "kind", "flops") == [("optimizer", 7), ("model", 8)]


def test_what_runs_in_the_closure_of_an_optimizer_is_the_models(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 100), "Optimizer.step#Muon.step", "annotation")
    counted(build, (10, 20), flops=7, depth=1)
    build.host(0, (30, 60), "autograd::engine::evaluate_function: MmBackward0", "op")
    counted(build, (40, 50), flops=8, depth=2)
    counted(build, (70, 80), flops=9, depth=1)
    found = sorted(_brief(build, "flops", "kind"))
    assert found == [(7, "model"), (8, "model"), (9, "optimizer")]


def test_an_operator_that_launched_nothing_did_nothing(build: Builder) -> None:
    build.rank(0)
    build.rank(1)
    counted(build, (0, 10), flops=7)
    kernel(build, 1, (20, 30))
    counted(build, (40, 50), flops=8)
    counted(build, (40, 50), flops=9, rank=1)
    assert _brief(build, "rank", "flops") == [(0, 7), (1, 9)]


def test_an_operator_without_shapes_says_so_with_its_kernels(build: Builder) -> None:
    build.rank(0)
    build.host(0, (0, 10), "aten::mm", args="{}")
    build.host(0, (20, 30), "aten::mm")
    kernel(build, 1, (100, 110))
    kernel(build, 21, (110, 130))
    columns = ("op", "calls", "kernels", "device_ns", "flops", "reason")
    assert _brief(build, *columns) == [("aten::mm", 2, 2, 30, None, formulas.NO_SHAPES)]


def test_a_count_in_the_trace_that_is_none_is_not_taken(build: Builder) -> None:
    for rank, carried in enumerate(("0", "-5", "nan", "1e300", "many", "NaN", "")):
        build.rank(rank)
        build.host(rank, (0, 10), "triton_poi", args=json.dumps({"kernel_flop": carried}))
    found = [(row["flops"], bool(row["reason"])) for row in rows(build.con, "op_work")]
    assert found == [(None, True)] * 7


def test_rank_and_step_can_be_chosen(build: Builder) -> None:
    for rank in (0, 1):
        build.rank(rank)
        for step in (1, 2):
            at = 100 * step
            counted(build, (at, at + 10), flops=10 * rank + step, rank=rank, step=step)
            kernel(build, at + 1, (at, at + 5), rank=rank, step=step)
            kernel(build, at + 20, (at, at + 5), rank=rank, step=step, class_="norm")
    got = _brief(build, "rank", "step", "flops", "class", rank=1, step=2)
    assert got == [(1, 2, 12, "gemm"), (1, 2, None, "norm")]


def test_calls_that_differ_in_nothing_that_counts_have_one_signature(build: Builder) -> None:
    build.rank(0)
    args = {"kernel_flop": 8, "Input Dims": [[2, 2]], "Input type": ["float"]}
    ids = [
        build.host(0, (at, at + 5), name, args=json.dumps(more | args))
        for at, name, more in (
            (0, "triton_a", {"External id": 1}),
            (10, "triton_a", {"External id": 2, "Ev Idx": 7}),
            (20, "triton_b", {"External id": 1}),
            (30, "triton_a", {"Concrete Inputs": [""]}),
        )
    ]
    provide(build.con, "FROM tw_placed_ops")
    numbers = dict(build.con.execute("SELECT op_id, signature FROM tw_placed_ops").fetchall())
    first, again, other_name, other_values = (numbers[op_id] for op_id in ids)
    assert first == again
    assert len({first, other_name, other_values}) == 3
    assert sorted(
        build.con.execute("SELECT * EXCLUDE (signature) FROM tw_call_work").fetchall()
    ) == [
        ("triton_a", "[[2,2]]", 8, None, "fp32", None),
        ("triton_a", "[[2,2]]", 8, None, "fp32", None),
        ("triton_b", "[[2,2]]", 8, None, "fp32", None),
    ]


@pytest.mark.parametrize("around", [None, "autograd::engine::evaluate_function: MmBackward0"])
def test_the_innermost_of_a_name_has_the_types_that_are_computed_with(
    build: Builder, around: str | None
) -> None:
    """Autocast converts the arguments and calls the same operator again, in a backward as well."""
    build.rank(0)
    if around is not None:
        build.host(0, (0, 900), around)
    counted(build, (10, 100), flops=8, dtype="fp32", depth=1)
    counted(build, (20, 90), flops=8, dtype="fp32", depth=2)
    counted(build, (30, 80), flops=8, dtype="bf16", depth=3)
    counted(build, (40, 70), flops=8, dtype="fp32", depth=4, name="triton_other")
    counted(build, (110, 120), flops=8, dtype="fp32", depth=1)
    assert _brief(build, "dtype", "calls", per="call") == [("bf16", 1), ("fp32", 1)]


@nightly
def test_ranks_are_read_some_at_a_time_with_the_same_rows(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rank in range(5):
        build.rank(rank)
        counted(build, (0, 10), flops=7 + rank % 2, rank=rank, step=rank)
        kernel(build, 1, (20, 30), rank=rank, step=rank, class_=("gemm", "norm")[rank % 2])
        counted(build, (0, 10), flops=70 + rank, rank=9, tid=rank)
    # a process that is no rank
    build.con.execute("UPDATE base.host_ops SET rank = NULL WHERE rank = 9")
    build.rank(7)
    build.gpu(7, (400, 404))
    at_once = rows(build.con, "op_work")
    assert len(at_once) == 11
    for most in (1, 6):
        monkeypatch.setattr(placed_ops, "MOST_HOST_OPS", most)
        assert rows(build.con, "op_work") == at_once


@nightly
def test_what_was_not_read_to_the_end_is_read_again(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.rank(0)
    counted(build, (0, 10), flops=7)
    provide(build.con, "FROM tw_placed_ops")
    with monkeypatch.context() as patch:
        patch.setattr(placed_ops, "_store", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            provide(build.con, "FROM tw_placed_ops")
    there = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'tw_placed_ops'"
    assert build.con.execute(there).fetchall() == [(0,)]
    assert _brief(build, "flops") == [(7,)]


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
