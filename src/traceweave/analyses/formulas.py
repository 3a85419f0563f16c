"""How much arithmetic an operator does, from the shapes that the profiler recorded.

The formulas count as torch's own do (torch.utils.flop_counter, what FlopCounterMode counts with),
which a test compares: importing torch takes longer than most questions. Added are operators that
torch has no entry for but that do what one with an entry does, and the grouped matrix product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from traceweave.analyses.recorded_call import Call, Shape, Signature, parse_call

NO_SHAPES = "shapes not recorded: profile with record_shapes=True"
PACKED = "packed sequences: their lengths are not in the trace"
FOUR_BIT = "two numbers per element: shapes do not tell how many there are"
MOST = 2**63 - 1

_HEADS_THIRD = (
    "aten::_flash_attention_forward",
    "aten::_flash_attention_backward",
    "aten::_efficient_attention_forward",
    "aten::_efficient_attention_backward",
    "flash_attn::_flash_attn_forward",
    "flash_attn::_flash_attn_backward",
    "flash_attn::_flash_attn_varlen_forward",
    "flash_attn::_flash_attn_varlen_backward",
    "flash_attn_3::_flash_attn_forward",
    "flash_attn_3::_flash_attn_backward",
    "flash_attn_3::fwd",
    "flash_attn_3::bwd",
)
"""Attention on (batch, sequence, heads, size); all other has heads second."""

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
    "aten::_scaled_dot_product_flash_attention_backward",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_efficient_attention_backward",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_scaled_dot_product_fused_attention_overrideable_backward",
    *_HEADS_THIRD,
)

OPERATORS = (
    *_PRODUCTS,
    *_CONVOLUTIONS,
    _CONVOLUTION_BACKWARD,
    *_ATTENTION,
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
    # formulas fall over what they cannot be used on
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
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
    if name == "aten::_grouped_mm":
        a, b, groups = call.shapes[:3]
        flops, out = _grouped(a, b, groups)
    else:
        a, b = call.arguments()[left : left + 2]
        flops, out = _multiplied(a, b), [*a[:-1], b[-1]]
    # beta = 0 makes the added matrix an output only
    added = left == 1 and call.values[3:4] not in ([0], [0.0])
    read = sum(call.size(index) for index in range(0 if added else left, left + 2))
    return _checked(flops, read + call.size(left, out), call.dtype(left))


def _multiplied(a: Shape, b: Shape) -> int:
    """FLOPs of a product of two matrices, or of as many pairs as both have."""
    *pairs, rows, inner = a
    if b[:-1] != [*pairs, inner] or len(pairs) > 1:
        raise ValueError(f"shapes do not fit: {a} and {b}")
    return 2 * prod(pairs) * rows * inner * b[-1]


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
    x, weight = call.arguments()[:2]
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
    flops = _convolved(x, weight, x if transposed else out)
    read = sum(call.size(index) for index in range(3))
    return _checked(flops, read + call.size(0, out), call.dtype(0))


def _convolved(x: Shape, weight: Shape, places: Shape) -> int:
    """FLOPs of every weight used at every place, for every sample."""
    return 2 * x[0] * prod(weight) * prod(places[2:])


def _convolution_backward(call: Call) -> Work:
    out, x, weight = call.arguments()[:3]
    transposed, wanted = call.values[7], call.values[10]
    flops = written = 0
    if wanted[0]:
        flops += _convolved(out, weight, x if transposed else out)
        written += call.size(1)
    if wanted[1]:
        # the one is moved over the other, and samples are what is summed over
        moved, still = (out, x) if transposed else (x, out)
        flops += 2 * moved[1] * prod(still) * prod(weight[2:])
        written += call.size(2)
    read = sum(call.size(index) for index in range(3))
    return _checked(flops, read + written, call.dtype(1))


def _attention(name: str, call: Call) -> Work:
    # with the gradient of the result first
    inputs = 4 if name.endswith(("backward", "bwd")) else 3
    shapes = call.shapes[:inputs]
    if name in _HEADS_THIRD:
        shapes = [[batch, heads, length, size] for batch, length, heads, size in shapes]
    query, key, value = shapes[-3:]
    attended = [*query[:-1], value[-1]]
    if inputs == 4 and shapes[0] != attended:
        raise ValueError(f"the gradient does not fit the result: {shapes[0]} and {attended}")
    read = sum(call.size(index) for index in range(inputs))
    # gradients of query, key and value are as large as these
    written = read - call.size(0) if inputs == 4 else call.size(0, attended)
    flops = _attended(query, key, value, backward=inputs == 4)
    return _checked(flops, read + written, call.dtype(inputs - 3))


def _attended(query: Shape, key: Shape, value: Shape, backward: bool) -> int:
    """FLOPs of attention; several heads of queries may share one of keys and values."""
    batch, heads, queries, size = query
    _, shared, keys, _ = key
    if key != [batch, shared, keys, size] or value[:-1] != key[:-1] or heads % shared:
        raise ValueError(f"shapes do not fit: {query}, {key} and {value}")
    # products over the size of a key: scores, backward again, and gradients of queries and of keys;
    # over that of a value: what is attended to, or gradients of scores and of values
    of_keys, of_values = (3, 2) if backward else (1, 1)
    return 2 * batch * heads * queries * keys * (of_keys * size + of_values * value[-1])


def _checked(flops: int, bytes_: int, dtype: str | None) -> Work:
    if not (0 <= flops <= MOST and 0 <= bytes_ <= MOST):
        raise ValueError(f"{flops} FLOPs on {bytes_} bytes")
    return Work(flops, bytes_, dtype)
