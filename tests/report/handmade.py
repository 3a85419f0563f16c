"""The run of handmade.sql, with as many ranks and steps as a test needs."""

from pathlib import Path

import duckdb

MS = 1_000_000
T0 = 1_700_000_000_000_000_000
RUNS: dict[str, dict[str, object]] = {
    "eight ranks": {"ranks": 8, "steps": 3},
    "one rank without collectives": {"ranks": 1, "steps": 2, "collectives": False},
    "only CPU": {"ranks": 4, "steps": 2, "gpu": False},
    "no steps": {"ranks": 2, "steps": 0},
    "many ranks": {"ranks": 64, "steps": 6},
    "nothing": {"ranks": 0, "collectives": False},
}
"""Options of `fill` by what is special about the run."""

_SQL = Path(__file__).with_name("handmade.sql").read_text(encoding="utf-8")


def fill(
    con: duckdb.DuckDBPyConnection,
    *,
    ranks: int = 8,
    steps: int = 3,
    collectives: bool = True,
    gpu: bool = True,
    kernel: str = "gemm_kernel",
) -> None:
    """Insert the run; `steps` = 0 writes one round of work outside any step.

    0 ranks without collectives are no row at all."""
    options = {"ranks": ranks, "steps": steps, "collectives": collectives, "gpu": gpu}
    for name, value in {**options, "kernel": kernel, "t0": T0}.items():
        con.execute(f"SET VARIABLE {name} = ?", [value])
    con.execute(_SQL)
