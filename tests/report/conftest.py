"""Runs to report on, written by hand, and a real browser to look at the page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.report import handmade
from tests.report.chromium import Chromium
from traceweave.store.schema import create_tables

MakeRun = Callable[..., duckdb.DuckDBPyConnection]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: looks at a page in a real Chromium")


@pytest.fixture
def make_run() -> Iterator[MakeRun]:
    """Make databases of hand-made runs; see handmade.fill for the options."""
    opened: list[duckdb.DuckDBPyConnection] = []

    def make(**options: object) -> duckdb.DuckDBPyConnection:
        con = duckdb.connect()
        opened.append(con)
        create_tables(con)
        handmade.fill(con, **options)  # type: ignore[arg-type]
        return con

    yield make
    for con in opened:
        con.close()


@pytest.fixture
def chromium(tmp_path: Path) -> Chromium:
    """A headless Chromium with a fresh profile."""
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome"):
        if found := shutil.which(name):
            return Chromium(found, tmp_path / "profile")
    pytest.skip("no Chromium on PATH: apt-get install chromium")
