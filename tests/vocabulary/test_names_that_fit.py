"""Names of kernels in a table: short, and different where the kernels are."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from tests.conftest import Recorded
from tests.marks import first_at_once
from traceweave.vocabulary import fitted, readable

ADD = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl<at::native::"
    "AddFunctor<float> >(at::TensorIteratorBase&)::{lambda(int)#1}>(int, float*)"
)


@cases
def test_a_name_is_read_without_the_types_of_its_parameters(name: str, text: str) -> None:
    assert readable([name]) == {name: text}


def test_names_that_differ_in_what_is_left_out_keep_it() -> None:
    names = ["void f<1>(float*)", "void f<1>(int*)", "void g<1>(int*)"]
    assert list(readable(names).values()) == [*names[:2], "g<1>"]


def test_what_tells_names_apart_is_kept() -> None:
    other = ADD.replace("AddFunctor", "MulFunctor")
    texts = list(readable([ADD, other]).values())
    assert list(fitted([*texts, "gemm"], 40).values()) == [
        "elementwise_kernel<…AddFunctor<float> >…",
        "elementwise_kernel<…MulFunctor<float> >…",
        "gemm",
    ]
    assert list(fitted(texts[:1], 30).values()) == ["elementwise_kernel<128, 2, gp…"]
    assert fitted(["at::native::gather", "b"], 12)["at::native::gather"] == "gather"


@first_at_once()
@pytest.mark.parametrize("run", ["kineto/nanogpt_8xh100", "kineto/torchrec_4"])
@pytest.mark.parametrize("width", [16, 43])
def test_kernels_of_real_runs_stay_different(recorded: Recorded, run: str, width: int) -> None:
    names = recorded(run).sql("SELECT DISTINCT name FROM gpu_ops")["name"].tolist()
    texts = list(readable(names).values())
    shown = fitted(texts, width)
    assert len(set(texts)) == len(set(shown.values())) == len(names)
    assert max(map(len, shown.values())) <= width
    if width > 40:  # numbers stand in for what has no room, which is seldom
        assert sum("~" in text for text in shown.values()) < len(names) / 20


@given(st.lists(st.text("aZ_9<>()::, ", max_size=40), max_size=6), st.integers(1, 24))
def test_any_names_fit(names: list[str], width: int) -> None:
    texts = readable(names)
    assert len(set(texts.values())) == len(set(names))
    assert max(map(len, fitted(list(texts.values()), width).values()), default=0) <= max(width, 2)


@pytest.mark.parametrize("piece", ["(", ")", "<", "a::", "_Z9", "(a", "(int)"])
def test_hostile_names_take_no_time(piece: str) -> None:
    begin = time.process_time()
    names = [piece * 50_000 + end for end in "ab)"]
    fitted(list(readable(names).values()), 40)
    assert time.process_time() - begin < 1
