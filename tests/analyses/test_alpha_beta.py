from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.analyses.builders import Builder, check
from tests.marks import nightly
from tests.told import Case, told
from traceweave_simulator import Config, simulate, write_kineto


class Run(Builder):
    """All-reduces of two ranks."""

    def sizes(self, transfers: dict[int | None, int], residual_ns: int = 0) -> None:
        """One of each size, with what it takes after rank 1 came."""
        self.world(2, residual_ns=residual_ns)
        for number, (size, transfer) in enumerate(transfers.items()):
            at = number * 1_000_000
            end = at + 5000 + transfer
            self.collective({0: (at, end), 1: (at + 5000, end)}, bytes_=size)


@told
def test_alpha_beta(empty_run: duckdb.DuckDBPyConnection, case: Case) -> None:
    check(Run(empty_run), case)


@nightly
@pytest.mark.parametrize(("alpha_ns", "beta_gbps"), [(12_000, 220.0), (80_000, 45.0)])
def test_what_was_simulated_is_recovered(tmp_path: Path, alpha_ns: int, beta_gbps: float) -> None:
    config = Config(
        ranks=4, steps=3, layers=4, alpha_ns=alpha_ns, beta_gbps=beta_gbps, straggler={1: 500_000},
        end_jitter_ns=2000, clock_offset_ns=500_000, clock_drift_ppm=20,
    )  # fmt: skip
    write_kineto(simulate(config), tmp_path / "traces")
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        fits = run.alpha_beta()
    assert len(fits) == 1
    fit = fits.iloc[0]
    assert fit["beta_gbps"] == pytest.approx(beta_gbps, rel=0.02)
    assert fit["alpha_ns"] == pytest.approx(alpha_ns, abs=5000)
    assert fit["sizes"] == 3
