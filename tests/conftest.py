"""Fixtures shared by all tests."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

import traceweave
from tests.chromium import Chromium
from tests.tables import create_tables

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


@pytest.fixture(scope="session")
def database_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function from traces to their database.

    Each set of traces is ingested once per test session, whatever the number of processes that
    run tests, so nobody may write to the database.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def database(*traces: Path) -> Path:
        key = hashlib.sha256("\0".join(map(str, traces)).encode()).hexdigest()[:16]
        path = folder / f"{key}.duckdb"
        with (folder / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                assert traceweave.ingest(traces, path).ok
        return path

    return database


@pytest.fixture
def empty_run() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with all tables and no rows."""
    with duckdb.connect() as con:
        create_tables(con)
        yield con


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    """A headless Chromium with a fresh profile."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if found := shutil.which(name):
            return Chromium(found, tmp_path / "profile")
    pytest.skip("no Chromium on PATH: apt-get install chromium")
