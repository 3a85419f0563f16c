"""FLOPs and bytes of single calls, worked out by hand, and what cannot be counted."""

import json
from collections.abc import Callable
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import nightly
from traceweave.analyses.formulas import OPERATORS, PACKED, Work, work
from traceweave.analyses.recorded_call import Signature

BF16, FLOAT = "c10::BFloat16", "float"


def _call(name: str, *arguments: tuple[list[int], str, str]) -> Work:
    """Arguments are (shape, type, value) as Kineto writes them."""
    dims, types, concrete = (json.dumps(list(part)) for part in zip(*arguments, strict=True))
    return work(Signature(name, dims, types, concrete))


def _tensor(*shape: int, type_: str = FLOAT) -> tuple[list[int], str, str]:
    return (list(shape), type_, "")


def _number(value: object) -> tuple[list[int], str, str]:
    return ([], "Scalar", str(value))


def _list(*values: object) -> tuple[list[int], str, str]:
    return ([], "ScalarList", str(list(values)))


NONE: tuple[list[int], str, str] = ([], "", "")


def test_products() -> None:
    a, b = _tensor(2, 3, type_=BF16), _tensor(3, 5, type_=BF16)
    out = _tensor(2, 5, type_=BF16)
    # 2 * 2 * 3 * 5 operations; 6 + 15 + 10 numbers of 2 bytes
    want = Work(60, 62, "bf16")
    assert _call("aten::mm", a, b) == want
    assert _call("aten::mm", a, b, out) == want
    bias = _tensor(5, type_=BF16)
    assert _call("aten::addmm", bias, a, b, _number(1), _number(1)) == Work(60, 72, "bf16")
    added = (_tensor(7, 2, 5), _tensor(7, 2, 3), _tensor(7, 3, 5))
    assert _call("aten::bmm", *added[1:]) == Work(420, 7 * 31 * 4, "fp32")
    assert _call("aten::baddbmm", *added, _number("1"), _number(1)) == Work(420, 7 * 41 * 4, "fp32")
    # beta = 0: what is added to is not read
    assert _call("aten::baddbmm", *added, _number("0."), _number(1)) == Work(420, 868, "fp32")
    scaled = (_tensor(16, 32, type_="c10::Float8_e4m3fn"), _tensor(32, 8, type_="c10::Float8_e5m2"))
    scales = (_tensor(type_=FLOAT), _tensor(type_=FLOAT), NONE, NONE, _number(15), _number("False"))
    assert _call("aten::_scaled_mm", *scaled, *scales, _tensor(16, 8, type_=BF16)) == Work(
        2 * 16 * 32 * 8, 16 * 32 + 32 * 8 + 16 * 8, "fp8"
    )


@given(*[st.integers(1, 10**6)] * 3)
def test_a_product_is_two_operations_per_term(m: int, k: int, n: int) -> None:
    done = _call("aten::mm", _tensor(m, k), _tensor(k, n))
    assert done == Work(2 * m * k * n, 4 * (m * k + k * n + m * n), "fp32")


@pytest.mark.parametrize(
    ("a", "b", "out"),
    [
        ((10, 3), (4, 3, 5), (10, 5)),  # rows of a in groups
        ((4, 10, 3), (3, 5), (10, 5)),  # columns of b in groups
        ((4, 10, 3), (4, 3, 5), (4, 10, 5)),
        ((10, 3), (3, 5), (4, 10, 5)),  # the inner dimension in groups
    ],
)
def test_grouped_products(a: tuple[int, ...], b: tuple[int, ...], out: tuple[int, ...]) -> None:
    groups = 4 if len(a) == len(b) == 3 else 1
    done = _call("aten::_grouped_mm", _tensor(*a), _tensor(*b), _tensor(4, type_="int"), NONE, NONE)
    assert done == Work(groups * 2 * 10 * 3 * 5, 4 * (prod(a) + prod(b) + prod(out)), "fp32")


def _convolution(x: Any, weight: Any, transposed: bool, groups: int, more: int = 0) -> Work:
    geometry = (_list(2, 2), _list(1, 1), _list(1, 1))
    rest = (_number(transposed), _list(more, more), _number(groups))
    return _call("aten::convolution", x, weight, NONE, *geometry, *rest)


def test_convolutions() -> None:
    # 8 x 8 with padding 1, window 3, stride 2: 4 x 4 places
    assert _convolution(_tensor(2, 3, 8, 8), _tensor(6, 3, 3, 3), False, 1) == Work(
        2 * 2 * 6 * 16 * 27, 4 * (2 * 3 * 64 + 6 * 27 + 2 * 6 * 16), "fp32"
    )
    # every group sees a third of the channels
    assert _convolution(_tensor(2, 3, 8, 8), _tensor(6, 1, 3, 3), False, 3) == Work(
        2 * 2 * 6 * 16 * 9, 4 * (2 * 3 * 64 + 6 * 9 + 2 * 6 * 16), "fp32"
    )
    # transposed: every number of the input meets every weight; 4 x 4 becomes 8 x 8
    assert _convolution(_tensor(2, 6, 4, 4), _tensor(6, 3, 3, 3), True, 1, more=1) == Work(
        2 * 2 * 16 * 6 * 27, 4 * (2 * 6 * 16 + 6 * 27 + 2 * 3 * 64), "fp32"
    )


@pytest.mark.parametrize(
    ("mask", "times", "written"),
    [
        ((True, True, True), 2, 384 + 162),
        ((False, True, True), 1, 162),
        ((True, False, True), 1, 384),
        ((False, False, True), 0, 0),
    ],
)
def test_convolution_backward(mask: tuple[bool, ...], times: int, written: int) -> None:
    tensors = (_tensor(2, 6, 4, 4), _tensor(2, 3, 8, 8), _tensor(6, 3, 3, 3))
    geometry = (_list(6), _list(2, 2), _list(1, 1), _list(1, 1), _number("False"), _list(0, 0))
    done = _call("aten::convolution_backward", *tensors, *geometry, _number(1), _list(*mask))
    forward = 2 * 2 * 6 * 16 * 27
    assert done == Work(times * forward, 4 * (192 + 384 + 162 + written), "fp32")


def test_attention_in_every_layout() -> None:
    heads_second = [_tensor(2, 4, 10, 8, type_=BF16)] + [_tensor(2, 4, 30, 8, type_=BF16)] * 2
    heads_third = [_tensor(2, 10, 4, 8, type_=BF16)] + [_tensor(2, 30, 4, 8, type_=BF16)] * 2
    product = 2 * 2 * 4 * 10 * 30 * 8  # of queries with keys, and the same of scores with values
    q, kv = 2 * 4 * 10 * 8 * 2, 2 * 4 * 30 * 8 * 2
    forward, backward = (
        Work(2 * product, 2 * q + 2 * kv, "bf16"),
        Work(5 * product, q + q + 2 * kv + q + 2 * kv, "bf16"),
    )
    for name in ("flash_attention", "efficient_attention", "flash_attention_for_cpu"):
        full = f"aten::_scaled_dot_product_{name}"
        assert _call(full, *heads_second, _number("0.")) == forward
        assert _call(f"{full}_backward", heads_second[0], *heads_second) == backward
    for full in ("flash_attn_3::fwd", "flash_attn::_flash_attn_forward"):
        assert _call(full, *heads_third, NONE) == forward
    assert _call("flash_attn::_flash_attn_backward", heads_third[0], *heads_third) == backward


def test_grouped_queries_have_the_work_of_the_queries() -> None:
    done = _call(
        "aten::_scaled_dot_product_flash_attention",
        _tensor(1, 8, 10, 4), _tensor(1, 2, 10, 4), _tensor(1, 2, 10, 4),
    )  # fmt: skip
    assert done.flops == 2 * (2 * 8 * 10 * 10 * 4)


def test_packed_sequences_are_not_counted() -> None:
    packed = [_tensor(100, 4, 8, type_=BF16)] * 3
    assert _call("flash_attn_3::fwd", *packed) == Work(reason=PACKED)
    padded = [_tensor(1, 100, 4, 8, type_=BF16)] * 3
    index = _tensor(5, type_="int")
    assert _call("aten::_flash_attention_forward", *padded, index, index) == Work(reason=PACKED)


@pytest.mark.parametrize(
    ("name", "dims", "types", "concrete"),
    [
        ("aten::mm", "[[2,3]]", '["float"]', None),
        ("aten::mm", "[[2,3],[4,5]]", '["float","float"]', None),
        ("aten::mm", "[[4,2,8],[2,8],[8]]", '["float","float","float"]', None),
        ("aten::mm", "[]", "[]", None),
        ("aten::mm", "not JSON", "[]", None),
        ("aten::mm", "{}", "{}", None),
        ("aten::mm", '[["a","b"],["b","c"]]', '["float","float"]', None),
        ("aten::mm", "[[9000000000,9000000000],[9000000000,2]]", '["float","float"]', None),
        ("aten::convolution", "[[2,3,8,8],[6,3,3,3],[]]", '["float","float",""]', None),
        (
            "aten::_flash_attention_forward", json.dumps([[1, 2, 0, 4]] * 3),
            '["float","float","float"]', None,
        ),
        ("aten::_scaled_mm", "[[2,3],[3,4]]", '["c10::Float4_e2m1fn_x2","c10::Half"]', None),
        ("aten::_scaled_dot_product_flash_attention", "[[2,3],[2,3]]", '["float","float"]', None),
        ("aten::mm", "[[2,3],[3,4]]", '["float","float"]', '["[[[[","(("]' + " " * 300),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_have_a_reason_and_no_number(
    name: str, dims: str, types: str, concrete: str | None
) -> None:
    done = work(Signature(name, dims, types, concrete))
    if concrete is None:
        assert (done.flops, done.bytes) == (None, None)
        assert done.reason
    else:
        # values that nobody can read do not matter where none is needed
        assert (done.flops, done.reason) == (48, None)


@pytest.fixture(scope="module")
def of_torch() -> dict[str, Callable[..., int]]:
    """torch's formulas by the names of the profiler."""
    counter = pytest.importorskip(
        "torch.utils.flop_counter", reason="torch is not installed: it has the second source"
    )
    found = counter.flop_registry.items()
    return {str(operator).replace(".", "::", 1): formula for operator, formula in found}


@nightly
def test_every_operator_that_torch_has_a_formula_for_is_counted(
    of_torch: dict[str, Callable[..., int]],
) -> None:
    inside_others = {"aten::cudnn_convolution", "aten::_slow_conv2d_forward"}
    listed = {name for name in of_torch if name.startswith("aten::")}
    assert listed - inside_others <= set(OPERATORS)


def _theirs(formula: Callable[..., int], *arguments: Any, **more: Any) -> int | None:
    try:
        return formula(*arguments, **more)
    except (AssertionError, ValueError):
        return None


# few sizes, so that they fit each other often and not always
SIZE = st.integers(1, 3)


@given(data=st.data(), name=st.sampled_from(["mm", "addmm", "bmm", "baddbmm", "_scaled_mm"]))
def test_torch_counts_products_the_same(
    of_torch: dict[str, Callable[..., int]], data: st.DataObject, name: str
) -> None:
    rank = 3 if "b" in name else 2
    a, b = (data.draw(st.lists(SIZE, min_size=rank, max_size=rank)) for _ in "ab")
    before = [[rank]] if "add" in name else []
    after = [[], []] if name == "_scaled_mm" else []
    shapes = [*before, a, b, *after]
    ours = _call(f"aten::{name}", *(_tensor(*shape) for shape in shapes))
    assert ours.flops == _theirs(of_torch[f"aten::{name}"], *shapes)


@given(data=st.data(), transposed=st.booleans(), mask=st.tuples(*[st.booleans()] * 3))
def test_torch_counts_convolutions_the_same(
    of_torch: dict[str, Callable[..., int]],
    data: st.DataObject,
    transposed: bool,
    mask: tuple[bool, ...],
) -> None:
    groups, left, right, samples, side, window = (data.draw(SIZE) for _ in range(6))
    x, out = [samples, groups * left, side, 4], [samples, groups * right, 4, side]
    weight = [groups * (left if transposed else right), right if transposed else left, window, 1]
    geometry = (_list(1, 1), _list(0, 0), _list(1, 1), _number(transposed), _list(0, 0))
    ones = ([1, 1], [0, 0], [1, 1], transposed, [0, 0], groups)

    ours = _call(
        "aten::convolution_backward",
        *(_tensor(*shape) for shape in (out, x, weight)),
        _list(right), *geometry, _number(groups), _list(*mask),
    )  # fmt: skip
    results = [x if mask[0] else None, weight if mask[1] else None, None]
    backward = of_torch["aten::convolution_backward"]
    assert ours.flops == backward(out, x, weight, [right], *ones, mask, out_val=results)

    ours = _call(
        "aten::convolution", _tensor(*x), _tensor(*weight), NONE, *geometry, _number(groups)
    )
    # without padding, stride 1
    sides = [x[2] + window - 1 if transposed else x[2] - window + 1, x[3]]
    out = [samples, groups * right, *sides]
    theirs = of_torch["aten::convolution"](x, weight, None, *ones, out_val=out)
    assert ours.flops == (theirs if theirs >= 0 else None)


@given(data=st.data(), kernel=st.sampled_from(["flash", "efficient", "cudnn"]))
def test_torch_counts_attention_the_same(
    of_torch: dict[str, Callable[..., int]], data: st.DataObject, kernel: str
) -> None:
    batch, heads, shared, queries, keys, size, other = (data.draw(SIZE) for _ in range(7))
    query, key, value, out = (
        [batch, heads, queries, size], [batch, shared, keys, size],
        [batch, shared, keys, other], [batch, heads, queries, other],
    )  # fmt: skip
    changed = data.draw(st.sampled_from([None, query, key, value, out]))
    if changed is not None:
        changed[data.draw(st.integers(0, 3))] += data.draw(SIZE)
    name = f"aten::_scaled_dot_product_{kernel}_attention"
    for operator, shapes in (
        (name, (query, key, value)),
        (f"{name}_backward", (out, query, key, value)),
    ):
        ours = _call(operator, *(_tensor(*shape) for shape in shapes))
        assert ours.flops == _theirs(of_torch[operator], *shapes)
