"""Fixtures shared by all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from traceweave.store.schema import create_tables

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


def _shared(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the folder of real traces is not here: {name} beside the checkout")
    return folder


@pytest.fixture
def corpus() -> Path:
    """Real traces of real runs, outside the repository."""
    return _shared("corpus")


@pytest.fixture
def expected() -> Path:
    """What other tools answer for the corpus, outside the repository."""
    return _shared("expected")


@pytest.fixture
def fixtures() -> Path:
    """Traces that ship with the project."""
    return Path(__file__).parent / "fixtures"


@pytest.fixture
def empty_run() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with all tables and no rows."""
    with duckdb.connect() as con:
        create_tables(con)
        yield con
