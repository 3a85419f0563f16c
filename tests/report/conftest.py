"""Runs to report on, written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import duckdb
import pytest

from tests.report import handmade
from tests.tables import create_tables

MakeRun = Callable[..., duckdb.DuckDBPyConnection]


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
