"""Simulated runs: a known regression is found and named, another seed is no regression."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import traceweave
from tests.marks import nightly
from traceweave.comparison import Comparison
from traceweave_simulator import Config, model, simulate, write_kineto
from traceweave_simulator.catalogue import Work

CHANGED = ("slower", "faster", "added", "removed", "longer", "shorter", "higher", "lower")


def run_with(seed: int) -> Config:
    return Config(ranks=2, steps=10, layers=3, seed=seed)


def slow_gemms(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Make every gemm of the simulated model take `factor` as long."""

    def scaled(work: Work) -> Work:
        if "gemm" not in work.kernel.name:
            return work
        slower = replace(work.kernel, duration_ns=round(work.kernel.duration_ns * factor))
        return replace(work, kernel=slower)

    layer = tuple(
        replace(op, forward=scaled(op.forward), backward=tuple(map(scaled, op.backward)))
        for op in model.LAYER
    )
    monkeypatch.setattr(model, "LAYER", layer)


def changes(found: Comparison) -> list[tuple[str, str]]:
    return [
        (name, str(next(iter(row.values()))))
        for name, table in found.tables.items()
        for row in table.to_pylist()
        if row.get("change") in CHANGED
    ]


@nightly
def test_five_percent_in_the_gemms_is_found_named_and_significant(
    simulated_database: Callable[[Config], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = simulated_database(run_with(seed=11))
    slow_gemms(monkeypatch, 1.05)
    write_kineto(simulate(run_with(seed=2)), tmp_path / "traces")
    traceweave.ingest(tmp_path / "traces", tmp_path / "run.duckdb")
    found = traceweave.compare(base, tmp_path / "run.duckdb")

    assert found.verdict == "slower"
    classes = {row["item"]: row for row in found.table("classes").to_pylist()}
    assert classes["gemm"]["change"] == "slower"
    assert classes["gemm"]["relative"] == pytest.approx(0.05, abs=0.01)
    slower = {row["class"] for row in found.table("kernels").to_pylist()[:9]}
    assert slower == {"gemm"}
    for table in ("classes", "kernels"):
        flagged = [row for row in found.table(table).to_pylist() if row["change"] in CHANGED]
        gemms = [row for row in flagged if "gemm" in row["item"]]
        assert {row["change"] for row in gemms} == {"slower"}
        # one finding in twenty may be chance, and then it is a small one
        others = [abs(row["difference_ns"]) for row in flagged if row not in gemms]
        assert sum(others) < 0.05 * sum(row["difference_ns"] for row in gemms)
    gemm_ns = classes["gemm"]["difference_ns"]
    compute = found.table("budget").to_pylist()[0]
    assert compute["difference_ns"] == pytest.approx(gemm_ns, rel=0.1)


@nightly
@pytest.mark.parametrize("seed", [11, 12, 13])
def test_another_seed_is_no_difference(
    simulated_database: Callable[[Config], Path], seed: int
) -> None:
    found = traceweave.compare(*(simulated_database(run_with(s)) for s in (seed, seed + 1)))
    assert found.comparability.verdict == "comparable"
    assert found.verdict == "same"
    assert changes(found) == []
