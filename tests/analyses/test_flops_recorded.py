"""Traces against what torch's own FlopCounterMode counted on the same models, and against the
arithmetic of models whose sizes are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import traceweave

pytest.importorskip(
    "torch.utils.flop_counter",
    reason="torch has the formulas and is not installed: pip install 'traceweave[torch]'",
)


def _asked(traces: Path, folder: Path, name: str, **params: object) -> list[dict[str, Any]]:
    database = folder / "run.duckdb"
    if not database.exists():
        traceweave.ingest([traces], database)
    with traceweave.open(database) as run:
        table = run.stream_analysis(name, **params).read_all()
    return [dict(row) for row in table.to_pylist()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    traces = Path(__file__).parent.parent / "fixtures" / "flops_cpu"
    return traces, tmp_path_factory.mktemp("flops_cpu")


def test_every_step_has_the_flops_that_torch_counted(recorded: tuple[Path, Path]) -> None:
    traces, folder = recorded
    expected = json.loads((traces / "expected.json").read_text(encoding="utf-8"))["steps"]
    want = {step["step"]: (step["flops"], step["recomputed_flops"]) for step in expected.values()}
    rows = _asked(traces, folder, "mfu", peak_tflops=0.05)
    got = {row["step"]: (row["flops"], row["recomputed_flops"]) for row in rows[2:]}
    assert got == want
    assert len(want) == 8
    assert rows[0]["flops"] == sum(flops for flops, _ in want.values())
    for row in rows:
        assert row["model_flops"] == row["flops"] - row["recomputed_flops"]
        spent = (row["hfu"] - row["mfu"]) * 0.05e12 * row["window_ns"] * 1e-9
        assert spent == pytest.approx(row["recomputed_flops"], abs=1e-3)


def test_autocast_is_counted_once_and_in_the_type_it_computes_in(
    recorded: tuple[Path, Path],
) -> None:
    traces, folder = recorded
    rows = _asked(traces, folder, "flops", step=2)
    # forward: two linear layers and a product; backward: theirs, but for the input's gradient
    forward = 2 * (32 * 80 * 160 + 32 * 160 * 10)
    product = 2 * 32 * 10 * 24
    backward = 2 * product + 2 * (32 * 80 * 160) + 2 * 2 * (32 * 160 * 10)
    assert {(row["op"], row["dtype"]): row["flops"] for row in rows} == {
        ("aten::addmm", "bf16"): forward,
        ("aten::mm", "bf16"): product + backward,
    }


def test_nanogpt_against_six_times_parameters_times_tokens(corpus: Path, tmp_path: Path) -> None:
    """Width 768, 11 MLPs of factor 4, 10 attentions, 50304 words, 16384 tokens a step and rank."""
    traces = corpus / "kineto" / "nanogpt_8xh100"
    rows = _asked(traces, tmp_path, "mfu")
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
    work = _asked(traces, tmp_path, "op_work", rank=0, step=10)
    in_optimizer = {row["op"] for row in work if row["kind"] == "optimizer"}
    assert in_optimizer == {"aten::baddbmm", "aten::bmm"}


def test_megatron_forward_against_two_times_parameters_times_tokens(
    corpus: Path, tmp_path: Path
) -> None:
    """A part of 8 of 40 layers of width 4096 and 51200 words, 4 x 2048 tokens: forward only."""
    rows = _asked(corpus / "kineto" / "megatron_tp8", tmp_path, "mfu")
    width, tokens, layers = 4096, 8192, 40
    in_layer = (3 * width * width + width * width + 2 * 4 * width * width) // 8
    attention = 2 * (2 * 32 * 2048 * 2048 * 64)  # 8 heads of 4 sequences
    head = 51200 * width // 8
    want = 2 * tokens * (layers * in_layer + head) + layers * attention
    assert {row["model_flops"] for row in rows if row["step"] is not None} == {want}
