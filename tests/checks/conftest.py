"""Runs that rules are asked of."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest


@pytest.fixture
def run(base_run: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Steps of 1500, 1010, 990, 1000 and 700 ns on two ranks: 400 compute, 200 exposed."""
    return base_run


@pytest.fixture
def databases(fixtures: Path, database_of: Callable[..., Path]) -> tuple[Path, Path]:
    return database_of(fixtures / "ddp_gloo_4ranks"), database_of(fixtures / "ddp_gloo_straggler")


@pytest.fixture
def torchrec(corpus: Path, database_of: Callable[..., Path]) -> Path:
    return database_of(corpus / "kineto" / "torchrec_4")
