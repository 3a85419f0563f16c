"""What a transformer's step is made of: operators and the kernels they launch, with the names
that real traces show."""

# Kernel names are as long as they are.
# ruff: noqa: E501

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    """A GPU kernel: names as Kineto and nsys write them, its usual duration and launch geometry."""

    name: str
    short: str
    duration_ns: int
    grid: tuple[int, int, int] = (512, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    shared_memory: int = 0


@dataclass(frozen=True)
class Call:
    """A call of an operator, its arguments as Kineto writes them: JSON lists."""

    name: str
    dims: str
    strides: str
    types: str
    concrete: str


@dataclass(frozen=True)
class Work:
    """Calls of operators, each inside the one before, around the launch of a kernel."""

    calls: tuple[Call, ...]
    kernel: Kernel


@dataclass(frozen=True)
class Operator:
    """What the forward pass asks for, and what autograd makes of it in the backward pass."""

    forward: Work
    node: str
    """Autograd's name for it."""
    backward: tuple[Work, ...]


BF16 = "c10::BFloat16"


def _call(name: str, *arguments: list[int] | str, types: tuple[str, ...] = ()) -> Call:
    """Return a call: an argument is the shape of a tensor, or the text of anything else.

    `types`: those of the first arguments; the others are bf16 tensors and scalars.
    """
    known = [BF16 if isinstance(a, list) else _type(a) for a in arguments]
    return Call(
        name,
        json.dumps([a if isinstance(a, list) else [] for a in arguments]),
        json.dumps([[] for _ in arguments]),
        json.dumps([*types, *known[len(types) :]]),
        json.dumps(["" if isinstance(a, list) else a for a in arguments]),
    )


def _type(text: str) -> str:
    return "ScalarList" if text.startswith("[") else "Scalar" if text else ""


def _gemm(tile: str, layout: str, duration_ns: int, grid: tuple[int, int, int]) -> Kernel:
    name = f"ampere_bf16_s16816gemm_bf16_{tile}_ldg8_f2f_stages_64x3_{layout}"
    return Kernel(name, name, duration_ns, grid, (256, 1, 1), 230, 147_456)


def _elementwise(functor: str, duration_ns: int) -> Kernel:
    full = (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, std::array<char*, 3ul> >"
        f"(int, {functor}, std::array<char*, 3ul>)"
    )
    return Kernel(
        full, "vectorized_elementwise_kernel", duration_ns, (16384, 1, 1), (128, 1, 1), 24
    )


ADD = _elementwise("at::native::CUDAFunctor_add<c10::BFloat16>", 18_000)
GELU = _elementwise("at::native::GeluCUDAKernelImpl<c10::BFloat16>", 22_000)
GELU_BACKWARD = _elementwise("at::native::GeluBackwardCUDAKernelImpl<c10::BFloat16>", 30_000)
MUL = _elementwise("at::native::MulFunctor<c10::BFloat16>", 15_000)
FILL = _elementwise("at::native::FillFunctor<float>", 1_500)
LAYER_NORM = Kernel(
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>"
    "(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    "vectorized_layer_norm_kernel", 26_000, (4096, 1, 1), (32, 4, 1), 40, 24,
)  # fmt: skip
LAYER_NORM_BACKWARD = Kernel(
    "void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>"
    "(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16 const*, c10::BFloat16*, int)",
    "layer_norm_grad_input_kernel_vectorized", 41_000, (4096, 1, 1), (128, 1, 1), 48, 16,
)  # fmt: skip
FLASH = Kernel(
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, false, true>"
    "(Flash_fwd_params)", "flash_fwd_kernel", 118_000, (32, 4, 16), (128, 1, 1), 255, 65_536,
)  # fmt: skip
FLASH_BACKWARD = Kernel(
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, 2, 4, 2, false, false, "
    "cutlass::bfloat16_t>, false, true>(Flash_bwd_params)",
    "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", 296_000, (16, 4, 16), (256, 1, 1), 255, 147_456,
)  # fmt: skip
REDUCE = Kernel(
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, "
    "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16> >, unsigned int, c10::BFloat16, 4> >"
    "(at::native::ReduceOp<c10::BFloat16, unsigned int, c10::BFloat16, 4>)",
    "reduce_kernel", 21_000, (32, 16, 1), (32, 16, 1), 40, 16,
)  # fmt: skip
EMBEDDING = Kernel(
    "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>"
    "(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, int, int, unsigned int, unsigned int, long)",
    "indexSelectLargeIndex", 24_000, (864, 1, 1), (128, 1, 1), 32,
)  # fmt: skip
EMBEDDING_BACKWARD = Kernel(
    "void at::native::(anonymous namespace)::embedding_backward_kernel<c10::BFloat16, float, long>"
    "(long const*, c10::BFloat16 const*, c10::BFloat16*, int, long, int)",
    "embedding_backward_kernel", 52_000, (2048, 8, 1), (32, 8, 1), 32,
)  # fmt: skip
SOFTMAX = Kernel(
    "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, c10::BFloat16, float, float, "
    "at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue>(float*, c10::BFloat16 const*, int)",
    "cunn_SoftMaxForward", 96_000, (8192, 1, 1), (1024, 1, 1), 32, 4_096,
)  # fmt: skip
SOFTMAX_BACKWARD = Kernel(
    "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float, float, c10::BFloat16, "
    "at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>(c10::BFloat16*, float const*, float const*, long)",
    "cunn_SoftMaxBackward", 112_000, (8192, 1, 1), (1024, 1, 1), 32, 4_096,
)  # fmt: skip
ADAM = Kernel(
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
    "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, "
    "(at::native::ADAM_MODE)1, false>, float const*, double, double, double, double, double, bool>"
    "(at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, double, double, double)",
    "multi_tensor_apply_kernel", 180_000, (320, 1, 1), (512, 1, 1), 64,
)  # fmt: skip

BATCH, TOKENS, HIDDEN, HEADS, WORDS = 2, 2048, 2048, 16, 50_304
"""The model: sequences per step, their length, width, attention heads, vocabulary."""

ROWS = BATCH * TOKENS
ACTIVATION = [BATCH, TOKENS, HIDDEN]
PER_HEAD = [BATCH, HEADS, TOKENS, HIDDEN // HEADS]
PER_TOKEN = [BATCH, TOKENS, HEADS, HIDDEN // HEADS]


def _linear(
    taken: int, made: int, duration_ns: int, tile: str, grid: tuple[int, int, int]
) -> Operator:
    """A matrix product with a bias, from `taken` to `made` numbers per token."""
    return Operator(
        Work(
            (
                _call("aten::linear", [BATCH, TOKENS, taken], [made, taken], [made]),
                _call("aten::addmm", [made], [ROWS, taken], [taken, made], "1", "1"),
            ),
            _gemm(tile, "tn", duration_ns, grid),
        ),
        "AddmmBackward0",
        (
            Work(
                (_call("aten::mm", [ROWS, made], [made, taken]),),
                _gemm(tile, "nn", duration_ns, grid),
            ),
            Work(
                (_call("aten::mm", [made, ROWS], [ROWS, taken]),),
                _gemm(tile, "nt", duration_ns + 3_000, grid),
            ),
            Work((_call("aten::sum", [ROWS, made], "[0]", "True", ""),), REDUCE),
        ),
    )


_NORM = Operator(
    Work(
        (
            _call("aten::layer_norm", ACTIVATION, f"[{HIDDEN}]", [HIDDEN], [HIDDEN], "1e-05", "True"),
            _call("aten::native_layer_norm", ACTIVATION, f"[{HIDDEN}]", [HIDDEN], [HIDDEN], "1e-05"),
        ),
        LAYER_NORM,
    ),
    "NativeLayerNormBackward0",
    (
        Work(
            (
                _call(
                    "aten::native_layer_norm_backward", ACTIVATION, ACTIVATION, f"[{HIDDEN}]",
                    [BATCH, TOKENS, 1], [BATCH, TOKENS, 1], [HIDDEN], [HIDDEN], "[True, True, True]",
                ),
            ),
            LAYER_NORM_BACKWARD,
        ),
    ),
)  # fmt: skip
_RESIDUAL = Operator(
    Work((_call("aten::add", ACTIVATION, ACTIVATION, "1"),), ADD),
    "AddBackward0",
    (Work((_call("aten::mul", ACTIVATION, "1"),), MUL),),
)
_ATTENTION = Operator(
    Work(
        (
            _call("aten::scaled_dot_product_attention", PER_HEAD, PER_HEAD, PER_HEAD, "", "0.", "True", "", "False"),
            _call("aten::_scaled_dot_product_flash_attention", PER_HEAD, PER_HEAD, PER_HEAD, "0.", "True", "False", ""),
            _call(
                "aten::_flash_attention_forward", PER_TOKEN, PER_TOKEN, PER_TOKEN, "", "",
                str(TOKENS), str(TOKENS), "0.", "True", "False", "",
            ),
        ),
        FLASH,
    ),
    "ScaledDotProductFlashAttentionBackward0",
    (
        Work(
            (
                _call(
                    "aten::_scaled_dot_product_flash_attention_backward", *[PER_HEAD] * 5,
                    [BATCH, HEADS, TOKENS], "", "", str(TOKENS), str(TOKENS), "0.", "True",
                ),
                _call(
                    "aten::_flash_attention_backward", *[PER_TOKEN] * 5,
                    [BATCH, HEADS, TOKENS], "", "", str(TOKENS), str(TOKENS), "0.", "True",
                ),
            ),
            FLASH_BACKWARD,
        ),
    ),
)  # fmt: skip
_WIDE = [BATCH, TOKENS, 4 * HIDDEN]
_GELU = Operator(
    Work((_call("aten::gelu", _WIDE, "tanh"),), GELU),
    "GeluBackward0",
    (Work((_call("aten::gelu_backward", _WIDE, _WIDE, "tanh"),), GELU_BACKWARD),),
)

LAYER: tuple[Operator, ...] = (
    _NORM,
    _linear(HIDDEN, 3 * HIDDEN, 172_000, "128x256", (24, 32, 1)),
    _ATTENTION,
    _linear(HIDDEN, HIDDEN, 61_000, "128x128", (16, 64, 1)),
    _RESIDUAL,
    _NORM,
    _linear(HIDDEN, 4 * HIDDEN, 228_000, "256x128", (64, 16, 1)),
    _GELU,
    _linear(4 * HIDDEN, HIDDEN, 231_000, "256x128", (16, 64, 1)),
    _RESIDUAL,
)
"""One transformer block, forward order."""

_INDEX = [BATCH, TOKENS]
FIRST = Operator(
    Work(
        (
            _call(
                "aten::embedding",
                [WORDS, HIDDEN],
                _INDEX,
                "-1",
                "False",
                "False",
                types=(BF16, "long int"),
            ),
            _call(
                "aten::index_select",
                [WORDS, HIDDEN],
                "0",
                [ROWS],
                types=(BF16, "Scalar", "long int"),
            ),
        ),
        EMBEDDING,
    ),
    "EmbeddingBackward0",
    (
        Work(
            tuple(
                _call(name, ACTIVATION, _INDEX, str(WORDS), "-1", "False", types=(BF16, "long int"))
                for name in ("aten::embedding_backward", "aten::embedding_dense_backward")
            ),
            EMBEDDING_BACKWARD,
        ),
    ),
)
LAST = Operator(
    Work(
        (
            _call(
                "aten::cross_entropy_loss",
                [ROWS, WORDS],
                [ROWS],
                "",
                "1",
                "-100",
                "0.",
                types=(BF16, "long int"),
            ),
            _call("aten::log_softmax", [ROWS, WORDS], "1", ""),
            _call("aten::_log_softmax", [ROWS, WORDS], "1", "False"),
        ),
        SOFTMAX,
    ),
    "LogSoftmaxBackward0",
    (
        Work(
            (_call("aten::_log_softmax_backward_data", [ROWS, WORDS], [ROWS, WORDS], "1", "15"),),
            SOFTMAX_BACKWARD,
        ),
    ),
)

NCCL_ARGUMENT = "(ncclDevKernelArgsStorage<4096ul>)"


def _nccl(name: str, blocks: int) -> Kernel:
    return Kernel(name + NCCL_ARGUMENT, name, 0, (blocks, 1, 1), (544, 1, 1), 96, 103_808)


NCCL_KERNELS: dict[tuple[str, str], Kernel] = {
    ("all_reduce", "BFloat16"): _nccl("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 24),
    ("all_reduce", "Float"): _nccl("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 2),
    ("all_gather", "BFloat16"): _nccl("ncclDevKernel_AllGather_RING_LL", 24),
    ("reduce_scatter", "BFloat16"): _nccl("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", 24),
    ("send", "BFloat16"): _nccl("ncclDevKernel_SendRecv", 8),
    ("recv", "BFloat16"): _nccl("ncclDevKernel_SendRecv", 8),
}
"""(op, dtype) -> the kernel that carries it."""

H2D, D2H, D2D = 1, 2, 8
"""CUPTI's numbers of copy kinds."""

COPIES = {
    H2D: Kernel("Memcpy HtoD (Pinned -> Device)", "HtoD", 14_000),
    D2H: Kernel("Memcpy DtoH (Device -> Pinned)", "DtoH", 1_600),
    D2D: Kernel("Memcpy DtoD (Device -> Device)", "DtoD", 2_000),
}
"""Copy kind -> its name and usual duration."""

PAGEABLE = Kernel("Memcpy HtoD (Pageable -> Device)", "HtoD", 0)
"""A copy whose duration is that of its bytes."""

EXTRA_OPS: tuple[tuple[str, str], ...] = (
    ("aten::empty", '"Concrete Inputs": ["[2, 2048, 2048]", "15", "", "", "", ""], "Input type": ["ScalarList", "Scalar", "", "", "", ""], "Input Strides": [[], [], [], [], [], []], "Input Dims": [[], [], [], [], [], []]'),
    ("aten::view", '"Concrete Inputs": ["", "[4096, 2048]"], "Input type": ["c10::BFloat16", "ScalarList"], "Input Strides": [[4194304, 2048, 1], []], "Input Dims": [[2, 2048, 2048], []]'),
    ("aten::transpose", '"Concrete Inputs": ["", "1", "2"], "Input type": ["c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[4194304, 2048, 128, 1], [], []], "Input Dims": [[2, 2048, 16, 128], [], []]'),
    ("aten::as_strided", '"Concrete Inputs": ["", "[2048, 2048]", "[1, 2048]", "0"], "Input type": ["c10::BFloat16", "ScalarList", "ScalarList", "Scalar"], "Input Strides": [[2048, 1], [], [], []], "Input Dims": [[2048, 2048], [], [], []]'),
)  # fmt: skip
"""Operators that launch nothing, for `extra_host_ops`."""
