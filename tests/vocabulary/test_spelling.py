"""How kernels' names are read, whoever wrote them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceweave.vocabulary import Spelling, spell

ADD = "at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<add_functor<float>>>"


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("volta_sgemm_64x64_nn", "volta_sgemm_64x64_nn"),
        ("MIOpenBatchNormFwdTrainSpatial.kd", "mi_open_batch_norm_fwd_train_spatial"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "nccl_dev_kernel_send_recv"),
        ("void foo<Bar>(int) [clone .kd]", "foo<bar>"),
        # an operator of the device of MTIA
        ("aten::cat.out-dtype_Float-extraKey_135", "aten::cat"),
        # Kineto's way and that of Nsight Systems, in front of the types of the parameters
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<AddFunctor"
            "<float>>(at::TensorIteratorBase&, AddFunctor<float> const&)::{lambda(int)#1}>(int)",
            ADD,
        ),
        (
            "void at::native::elementwise_kernel<(int)128, (int)2, at::native::gpu_kernel_impl<"
            "AddFunctor<float>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]"
            ">(int, T3)",
            ADD,
        ),
        # a nameless namespace
        ("void (anonymous namespace)::softmax_warp<1>(float*)", "softmax_warp<1>"),
        ("void <unnamed>::softmax_warp<(int)1>(T1 *)", "softmax_warp<1>"),
        # a type that is returned
        (
            "std::enable_if<(8>(0))&&vllm::_typeConvert<c10::Half>::exists, void>::type"
            " vllm::fused_add_rms_norm_kernel<c10::Half, 8>(c10::Half*)",
            "vllm::fused_add_rms_norm_kernel<c10::half, 8>",
        ),
        # left mangled by the profiler
        (
            "_ZN5aiter32fmha_fwd_hd192_hd128_bf16_causalE.kd",
            "aiter::fmha_fwd_hd192_hd128_bf16_causal",
        ),
        (
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELb1EEEvPT0_PT_PfS4_diib",
            "aiter::add_rmsnorm_quant_kernel",
        ),
        (
            "_ZN7ck_tile6kentryILi2ENS_13FmhaFwdKernelINS_8PipelineE",
            "ck_tile::kentry<fmha_fwd_kernel, pipeline>",
        ),
        # cut off
        (
            "void cutlass::Kernel2<cutlass_80_tensorop(cutlass_80_ten",
            "cutlass::kernel2<cutlass_80_tensorop",
        ),
    ],
)
def test_a_name_is_read_without_what_says_nothing(name: str, whole: str) -> None:
    assert spell(name).whole == whole


def test_the_function_is_told_from_its_namespaces_and_arguments() -> None:
    name = "void dpsk::ep::internode::dispatch<false, 8>(int4*, dpsk::ep::internode::SourceMeta*)"
    path = "dpsk::ep::internode::dispatch"
    assert spell(name) == Spelling("dispatch", path, f"{path}<false, 8>")


@given(st.text("aZ_9<>()[]{}:, *&lambdioprt#~-.", max_size=80))
def test_any_name_can_be_read(name: str) -> None:
    spelling = spell(name)
    assert spelling.whole.startswith(spelling.path)
    assert spelling.path.endswith(spelling.own)


@pytest.mark.parametrize("piece", ["(", "()", "<", "[", "_Z9", "::", "(a", "{lambda", " ", "9"])
def test_a_hostile_name_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    spell(piece * 1_000_000)
    spell("_Z" + piece * 4_000 + "a")
    assert time.process_time() - begin < 0.5
