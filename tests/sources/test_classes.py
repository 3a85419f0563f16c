"""What a kernel computes: told by the operator that launched it where that does one thing, else by
its name."""

from typing import Any

import duckdb
import pytest

from tests.cases import cases
from tests.marks import first_at_once
from tests.sources.test_kineto_load import kernel, launch, load, span
from traceweave.sources import classify as classify_module
from traceweave.sources.classify import classify

__all__ = ["load"]

PRODUCT = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize192x128x32_stage4_warpsize4x2x1_kernel"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
COPY = "void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda()>(int)"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
CLASSES = "SELECT category, class, class_source FROM gpu_ops ORDER BY op_id"


@first_at_once(2)
@cases
def test_an_operator_tells_what_its_own_kernels_do(
    load: Any, operator: str, name: str, class_: str, source: str
) -> None:
    _, query = load([span(operator, 0, 50), launch(10, 5, 1), kernel(name, 20, 5, 1)])
    assert query(CLASSES) == [("compute", class_, source)]


def test_the_innermost_operator_decides(load: Any) -> None:
    _, query = load(
        [
            span("aten::cudnn_convolution", 0, 50), span("aten::copy_", 5, 20), launch(10, 5, 1),
            launch(30, 5, 2), kernel(COPY, 20, 5, 1), kernel("unheard_of", 40, 5, 2),
        ]
    )  # fmt: skip
    assert query(CLASSES) == [("compute", "copy", "name"), ("compute", "conv", "operator")]


def test_communication_is_never_told_by_an_operator_nor_is_a_copy(load: Any) -> None:
    copy = {**kernel("Memcpy DtoD", 70, 5, 3), "cat": "gpu_memcpy"}
    fill = {**kernel("Memset (Device)", 80, 5, 4), "cat": "gpu_memset"}
    launches = [launch(10 * n, 5, n) for n in (1, 2, 3, 4)]
    work = [kernel(REDUCE, 50, 5, 1), kernel("unheard_of", 60, 5, 2), copy, fill]
    _, query = load([span("aten::mm", 0, 50), *launches, *work])
    assert query(CLASSES) == [
        ("communication", "collective", "name"),
        ("compute", "gemm", "operator"),
        ("memory", "copy", None),
        ("memory", "memset", None),
    ]


ROWS = "broadcast_add_all_reduce_rows_kernel"


def test_a_kernel_that_an_operator_launched_is_no_communication_for_a_word_in_its_name(
    load: Any,
) -> None:
    _, query = load(
        [
            span("aten::add", 0, 20), launch(5, 5, 1), span("aten::mm", 20, 20), launch(25, 5, 2),
            kernel(ROWS, 50, 5, 1), kernel(ROWS, 60, 5, 2),
        ]
    )  # fmt: skip
    assert query(CLASSES) == [("compute", "elementwise", "name"), ("compute", "gemm", "operator")]
    assert query("SELECT count(*) FROM collectives") == [(0,)]


@first_at_once()
@pytest.mark.parametrize("around", [("custom::add", 0, 20), ("aten::add", 0, 3)])
def test_outside_of_such_an_operator_the_name_decides(
    load: Any, around: tuple[str, int, int]
) -> None:
    _, query = load(
        [
            span(*around), launch(5, 5, 1), span("aten::add", 20, 20), launch(25, 5, 2),
            kernel(ROWS, 50, 5, 1), kernel(ROWS, 60, 5, 2),
        ]
    )  # fmt: skip
    assert query(CLASSES) == [("communication", "collective", "name")] * 2


def test_elementwise_work_inside_an_optimizer_is_the_optimizers_a_product_is_not(load: Any) -> None:
    step = span("Optimizer.step#Muon.step", 0, 100, cat="user_annotation")
    inner = span("Optimizer.step#Adam.step", 5, 10, cat="user_annotation")
    names = [ADD, "triton_poi_fused_add_mul_0", PRODUCT, COPY, "triton_red_fused_sum_1"]
    launches = [launch(20 + 10 * n, 5, n) for n in range(1, 6)]
    kernels = [kernel(name, 200 + 10 * n, 5, n) for n, name in enumerate(names, 1)]
    outside = [launch(110, 5, 9), kernel(ADD, 300, 5, 9)]
    other_thread = [{**launch(30, 5, 10), "tid": 8}, kernel(ADD, 310, 5, 10)]
    _, query = load([step, inner, *launches, *kernels, *outside, *other_thread])
    assert query(CLASSES) == [
        ("compute", "optimizer", "operator"), ("compute", "optimizer", "operator"),
        ("compute", "gemm", "name"), ("compute", "copy", "name"), ("compute", "reduction", "name"),
        ("compute", "elementwise", "name"), ("compute", "elementwise", "name"),
    ]  # fmt: skip


def test_what_the_closure_of_an_optimizer_runs_is_not_the_optimizers(load: Any) -> None:
    step = span("Optimizer.step#Adam.step", 0, 100, cat="user_annotation")
    backward = {**span("autograd::engine::evaluate_function: AddBackward0", 30, 30), "tid": 8}
    launches = [launch(10, 5, 1), {**launch(40, 5, 2), "tid": 8}, launch(70, 5, 3)]
    kernels = [kernel(ADD, 200 + 10 * n, 5, n) for n in (1, 2, 3)]
    _, query = load([step, backward, *launches, *kernels])
    classes = [name for _, name, _ in query(CLASSES)]
    assert classes == ["elementwise", "elementwise", "optimizer"]


def test_a_file_is_classed_by_its_own_names_after_another_one() -> None:
    with duckdb.connect() as con:
        for name in ("unheard_of", REDUCE):
            con.execute(
                "CREATE OR REPLACE TEMP TABLE new_gpu_ops AS SELECT 'kernel' AS kind, $1 AS name",
                [name],
            )
            classify(con)
        assert con.execute("FROM classified").fetchall() == [
            ("kernel", REDUCE, "communication", "collective")
        ]


def test_names_that_another_thread_forgets_meanwhile_are_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Forgotten(dict[str, tuple[str, str]]):
        """As if another thread cleared it after each look."""

        def keys(self) -> Any:
            found = list(super().keys())
            self.clear()
            return dict.fromkeys(found).keys()

        def get(self, name: str, default: Any = None) -> Any:
            found = super().get(name, default)
            self.clear()
            return found

    names = {"ncclDevKernel_AllReduce_Sum_f32_RING_LL": ("communication", "all_reduce")}
    monkeypatch.setattr(classify_module, "_told", Forgotten(names))
    with duckdb.connect() as con:
        con.execute("CREATE TABLE new_gpu_ops AS SELECT 'kernel' AS kind, unnest($1) AS name",
                    [[*names, "void at::native::elementwise_kernel<4>()"]])  # fmt: skip
        classify(con)
        found = con.execute("SELECT name, category FROM classified ORDER BY name").fetchall()
    assert found == [
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "communication"),
        ("void at::native::elementwise_kernel<4>()", "compute"),
    ]
