import duckdb
import pytest

from tests.analyses.builders import Builder
from traceweave.analyses import runner
from traceweave.analyses.catalog import render
from traceweave.analyses.statements import Statement


@pytest.fixture
def build(empty_run: duckdb.DuckDBPyConnection) -> Builder:
    return Builder(empty_run)


@pytest.fixture
def all_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every statement is planned, and asks for all that it reads, whatever has no rows."""
    for name in ("needed", "needed_parts"):
        monkeypatch.setattr(Statement, name, property(lambda _: frozenset()))
    monkeypatch.setattr(runner, "render", lambda *given: render(*given[:3]))
