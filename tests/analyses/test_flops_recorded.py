"""Traces against what torch's own FlopCounterMode counted on the same models, and against the
arithmetic of models whose sizes are known."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import nightly

Asked = Callable[..., list[dict[str, Any]]]

CPU = Path(__file__).parent.parent / "fixtures" / "flops_cpu"


@pytest.fixture
def asked(database_of: Callable[..., Path]) -> Asked:
    """Return a function from traces to the rows of an analysis."""

    def rows(traces: Path, name: str, **params: object) -> list[dict[str, Any]]:
        with traceweave.open(database_of(traces)) as run:
            table = run.stream_analysis(name, **params).read_all()
        return [dict(row) for row in table.to_pylist()]

    return rows


@nightly
def test_every_step_has_the_flops_that_torch_counted(asked: Asked) -> None:
    expected = json.loads((CPU / "expected.json").read_text(encoding="utf-8"))["steps"]
    want = {step["step"]: (step["flops"], step["recomputed_flops"]) for step in expected.values()}
    rows = asked(CPU, "mfu", peak_tflops=0.05)
    got = {row["step"]: (row["flops"], row["recomputed_flops"]) for row in rows[2:]}
    assert got == want
    assert len(want) == 8
    assert rows[0]["flops"] == sum(flops for flops, _ in want.values())
    for row in rows:
        assert row["model_flops"] == row["flops"] - row["recomputed_flops"]
        spent = (row["hfu"] - row["mfu"]) * 0.05e12 * row["window_ns"] * 1e-9
        assert spent == pytest.approx(row["recomputed_flops"], abs=1e-3)


def test_autocast_is_counted_once_and_in_the_type_it_computes_in(asked: Asked) -> None:
    rows = asked(CPU, "flops", step=2)
    # forward: two linear layers and a product; backward: theirs, but for the input's gradient
    forward = 2 * (32 * 80 * 160 + 32 * 160 * 10)
    product = 2 * 32 * 10 * 24
    backward = 2 * product + 2 * (32 * 80 * 160) + 2 * 2 * (32 * 160 * 10)
    assert {(row["op"], row["dtype"]): row["flops"] for row in rows} == {
        ("aten::addmm", "bf16"): forward,
        ("aten::mm", "bf16"): product + backward,
    }


@nightly
def test_nanogpt_against_six_times_parameters_times_tokens(corpus: Path, asked: Asked) -> None:
    """Width 768, 11 MLPs of factor 4, 10 attentions, 50304 words, 16384 tokens a step and rank."""
    traces = corpus / "kineto" / "nanogpt_8xh100"
    rows = asked(traces, "mfu")
    width, tokens = 768, 16384
    parameters = 11 * 2 * 4 * width**2 + 10 * 4 * width**2 + 50304 * width
    gates = 6 * (10 * 12 * 6 * tokens + 12 * 1 * (tokens - 1))
    steps = [row for row in rows if row["step"] is not None]
    assert len(steps) == 32
    assert {row["model_flops"] for row in steps} == {6 * parameters * tokens + gates}
    for row in steps:
        assert row["mfu"] == pytest.approx(
            row["model_flops"] / (row["window_ns"] * 1e-9 * 989.5e12), rel=1e-12
        )
        assert (row["hfu"], row["recomputed_flops"], row["dtype"]) == (None, None, "bf16")
        # packed attention and Triton kernels have no formula
        assert 0.4 < row["covered_share"] < 0.5
    assert rows[0]["mfu"] == pytest.approx(0.27, abs=0.005)
    # Muon orthogonalizes its matrices with products: these are in `flops` and in no MFU
    work = asked(traces, "op_work", rank=0, step=10)
    in_optimizer = {row["op"] for row in work if row["kind"] == "optimizer"}
    assert in_optimizer == {"aten::baddbmm", "aten::bmm"}
