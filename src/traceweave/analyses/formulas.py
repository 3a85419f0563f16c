"""How much arithmetic an operator does, from the shapes that the profiler recorded.

The formulas are torch's own (torch.utils.flop_counter.flop_registry, what FlopCounterMode counts
with). Added are operators that torch has no entry for but that do what one with an entry does, and
the grouped matrix product.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from traceweave.analyses.recorded_call import Call, Shape, Signature, parse_call

Formula: TypeAlias = Callable[..., int]

NO_TORCH = "torch is not installed, it has the formulas: pip install 'traceweave-ranks[torch]'"
NO_SHAPES = "shapes not recorded: profile with record_shapes=True"
PACKED = "packed sequences: their lengths are not in the trace"
FOUR_BIT = "two numbers per element: shapes do not tell how many there are"
MOST = 2**63 - 1

_FORWARD = "aten::_scaled_dot_product_flash_attention"
_BACKWARD = "aten::_scaled_dot_product_flash_attention_backward"
_HEADS_FIRST = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _FORWARD,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _BACKWARD,
    "aten::_scaled_dot_product_fused_attention_overrideable": _FORWARD,
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _BACKWARD,
}
_HEADS_THIRD = {
    "aten::_flash_attention_forward": _FORWARD,
    "aten::_flash_attention_backward": _BACKWARD,
    "aten::_efficient_attention_forward": _FORWARD,
    "aten::_efficient_attention_backward": _BACKWARD,
    "flash_attn::_flash_attn_forward": _FORWARD,
    "flash_attn::_flash_attn_backward": _BACKWARD,
    "flash_attn::_flash_attn_varlen_forward": _FORWARD,
    "flash_attn::_flash_attn_varlen_backward": _BACKWARD,
    "flash_attn_3::_flash_attn_forward": _FORWARD,
    "flash_attn_3::_flash_attn_backward": _BACKWARD,
    "flash_attn_3::fwd": _FORWARD,
    "flash_attn_3::bwd": _BACKWARD,
}
"""Attention on (batch, sequence, heads, size) where torch's formula has heads second."""

_PRODUCTS = {
    "aten::mm": 0,
    "aten::bmm": 0,
    "aten::addmm": 1,
    "aten::baddbmm": 1,
    "aten::_scaled_mm": 0,
    "aten::_grouped_mm": 0,
}
"""Matrix products, and which argument is the left factor; the right one follows it."""

_CONVOLUTIONS = ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
_CONVOLUTION_BACKWARD = "aten::convolution_backward"
_ATTENTION = (
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
)

OPERATORS = (
    *_PRODUCTS,
    *_CONVOLUTIONS,
    _CONVOLUTION_BACKWARD,
    *_ATTENTION,
    *(f"{name}_backward" for name in _ATTENTION),
    *_HEADS_FIRST,
    *_HEADS_THIRD,
)
"""The operators that are counted. aten::cudnn_convolution and aten::_slow_conv2d_forward, which
torch lists too, are always called by aten::convolution."""


@dataclass(frozen=True)
class Work:
    """What one call does. `flops` is None with a reason."""

    flops: int | None = None
    bytes: int | None = None
    """Every input and output touched once: a lower bound of what moves to and from memory."""
    dtype: str | None = None
    """Type of the factors as peaks are listed by; the wider of two."""
    reason: str | None = None


def work(signature: Signature) -> Work:
    """Return what a call with this signature does."""
    try:
        call = parse_call(signature)
        if any("Float4" in type_ for type_ in call.types):
            return Work(reason=FOUR_BIT)
        if signature.name in _HEADS_THIRD and call.is_packed():
            return Work(reason=PACKED)
        return _evaluate(signature.name, call)
    except ImportError:
        return Work(reason=NO_TORCH)
    # torch's formulas check what they are given with assertions, or fall over it
    except (AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError):
        return Work(reason=f"the formula of {signature.name} cannot be used on these arguments")


def _evaluate(name: str, call: Call) -> Work:
    if name in _PRODUCTS:
        return _product(name, call)
    if name in _CONVOLUTIONS:
        return _convolution(name, call)
    if name == _CONVOLUTION_BACKWARD:
        return _convolution_backward(call)
    return _attention(name, call)


def _product(name: str, call: Call) -> Work:
    left = _PRODUCTS[name]
    a, b = call.shapes[left : left + 2]
    if name == "aten::_grouped_mm":
        flops, out = _grouped(a, b, groups=call.shapes[2])
    else:
        flops, out = _apply(name, call.arguments()), [*a[:-1], b[-1]]
    # beta = 0 makes the added matrix an output only
    added = left == 1 and call.values[3:4] not in ([0], [0.0])
    read = sum(call.size(index) for index in range(0 if added else left, left + 2))
    return _checked(flops, read + call.size(left, out), call.dtype(left))


def _grouped(a: Shape, b: Shape, groups: Shape) -> tuple[int, Shape]:
    """FLOPs and output of a grouped product in which every row (or column) is in some group.

    One of a's rows, b's columns or the inner dimension is cut into groups, or all are batched.
    """
    if len(a) == 2 and len(b) == 2:
        return 2 * a[0] * a[1] * b[1], [*groups, a[0], b[1]]
    batch = a[0] if len(a) == 3 and len(b) == 3 else 1
    rows, inner, columns = a[-2], a[-1], b[-1]
    if inner != b[-2]:
        raise ValueError(f"inner dimensions differ: {a} and {b}")
    out = [batch, rows, columns] if batch > 1 else [rows, columns]
    return 2 * batch * rows * inner * columns, out


def _convolution(name: str, call: Call) -> Work:
    stride, padding, dilation, transposed, output_padding, groups = call.values[3:9]
    x, weight = call.shapes[:2]
    # the last of what a dimension's window covers, counted from its first
    reach = [d * (k - 1) for d, k in zip(dilation, weight[2:], strict=True)]
    place = zip(x[2:], stride, padding, reach, output_padding, strict=True)
    if transposed:
        channels = weight[1] * groups
        size = [(n - 1) * s - 2 * p + r + o + 1 for n, s, p, r, o in place]
    else:
        channels = weight[0]
        size = [(n + 2 * p - r - 1) // s + 1 for n, s, p, r, _ in place]
    out = [x[0], channels, *size]
    flops = _apply(name, call.arguments(), out)
    read = sum(call.size(index) for index in range(3))
    return _checked(flops, read + call.size(0, out), call.dtype(0))


def _convolution_backward(call: Call) -> Work:
    grads = call.values[10]
    out = [call.shapes[1] if grads[0] else None, call.shapes[2] if grads[1] else None, None]
    flops = _apply(_CONVOLUTION_BACKWARD, call.arguments(), out)
    read = sum(call.size(index) for index in range(3))
    written = sum(call.size(index) for index, wanted in zip((1, 2), grads, strict=False) if wanted)
    return _checked(flops, read + written, call.dtype(1))


def _attention(name: str, call: Call) -> Work:
    formula = _HEADS_FIRST.get(name) or _HEADS_THIRD.get(name) or name
    inputs = 4 if formula.endswith("backward") else 3
    shapes = call.shapes[:inputs]
    if name in _HEADS_THIRD:
        shapes = [[batch, heads, length, size] for batch, length, heads, size in shapes]
    flops = _apply(formula, [*shapes, *call.arguments()[inputs:]])
    read = sum(call.size(index) for index in range(inputs))
    query, _, value = shapes[-3:]
    out = call.size(0, [*query[:-1], value[-1]])
    # gradients of query, key and value are as large as these
    written = read - call.size(0) if inputs == 4 else out
    return _checked(flops, read + written, call.dtype(inputs - 3))


def _checked(flops: int, bytes_: int, dtype: str | None) -> Work:
    if not (0 <= flops <= MOST and 0 <= bytes_ <= MOST):
        raise ValueError(f"{flops} FLOPs on {bytes_} bytes")
    return Work(flops, bytes_, dtype)


def _apply(name: str, arguments: Sequence[Any], out: Any = None) -> int:
    formula, taken = _torch_formulas()[name]
    return int(formula(*arguments[:taken], out_val=out))


def load_formulas() -> None:
    """Import torch, if it is installed; a second or more, which other work need not wait for."""
    with suppress(ImportError):
        _torch_formulas()


@cache
def _torch_formulas() -> Mapping[str, tuple[Formula, int | None]]:
    """torch's formulas by the names of the profiler, and how many arguments each takes."""
    registry = import_module("torch.utils.flop_counter").flop_registry
    return {
        str(operator).replace(".", "::", 1): (formula, _arity(formula))
        for operator, formula in registry.items()
    }


def _arity(formula: Formula) -> int | None:
    """How many arguments before the output's shape a formula takes; None: any number."""
    parameters = inspect.signature(formula).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    plain = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
    return len([name for name in plain if name not in ("out_shape", "out_val")])
