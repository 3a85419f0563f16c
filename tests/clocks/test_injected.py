"""Real runs whose clocks are put off on the way in: what was put in has to come out again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import traceweave
from tests.clocks.injecting import aligned_ends, put_off

DatabaseOf = Callable[..., Path]


def recovered(
    source: Path, database_of: DatabaseOf, folder: Path, offset_us: int, drift_ppm: int
) -> dict[int, float]:
    """Largest error of every rank, us, against the same run as it was recorded."""
    (folder / "traces").mkdir()
    for k, path in enumerate(sorted(p for p in source.iterdir() if ".json" in p.name)):
        sign = (-1) ** k * (k > 0)
        put_off(path, folder / "traces" / f"rank{k}.json", sign * offset_us * k, sign * drift_ppm)
    traceweave.ingest(folder / "traces", folder / "run.duckdb")
    plain, ends = aligned_ends(database_of(source)), aligned_ends(folder / "run.duckdb")
    assert {rank: len(of) for rank, of in plain.items()} == {r: len(of) for r, of in ends.items()}
    common = ends[0][0] - plain[0][0]
    return {rank: float(np.abs(ends[rank] - plain[rank] - common).max()) / 1e3 for rank in ends}


def largest_residual(folder: Path) -> float:
    with traceweave.open(folder / "run.duckdb") as run:
        assert set(run.sql("SELECT status FROM clocks").status) == {"aligned"}
        return float(run.sql("SELECT max(residual_p95_ns) AS r FROM clocks").r[0]) / 1e3


def test_clocks_of_tensor_parallel_ranks(
    corpus: Path, database_of: DatabaseOf, tmp_path: Path
) -> None:
    """Put off and drifting at once: no easier than put off alone, and found as exactly."""
    errors = recovered(corpus / "kineto" / "megatron_tp8", database_of, tmp_path, 137_001, 30)
    assert max(errors.values()) < 1


@pytest.mark.parametrize("drift_ppm", [0, 30])
def test_clocks_of_recommender_ranks(
    corpus: Path, database_of: DatabaseOf, tmp_path: Path, drift_ppm: int
) -> None:
    errors = recovered(corpus / "kineto" / "torchrec_4", database_of, tmp_path, 137_001, drift_ppm)
    assert max(errors.values()) < (1 if drift_ppm == 0 else 10 + largest_residual(tmp_path))


@pytest.mark.parametrize("drift_ppm", [0, 30])
def test_clocks_of_gloo_ranks(
    fixtures: Path, database_of: DatabaseOf, tmp_path: Path, drift_ppm: int
) -> None:
    errors = recovered(fixtures / "ddp_gloo_4ranks", database_of, tmp_path, 137_001, drift_ppm)
    # 22 collectives are too few for a drift: it stays in
    assert max(errors.values()) < (1 if drift_ppm == 0 else 12)
