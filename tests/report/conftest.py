"""Runs to report on, written by hand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pytest

from tests.conftest import MakeOnce
from tests.report import handmade
from tests.tables import empty_database
from traceweave.report import write_report
from traceweave.report.render import Report, build_report
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

MakeRun = Callable[..., duckdb.DuckDBPyConnection]
MakePage = Callable[..., Path]
MakeReport = Callable[..., Report]


@pytest.fixture
def make_run() -> Iterator[MakeRun]:
    """Make databases of hand-made runs that a test may change; see handmade.fill for the options.

    Before it reports on all of a run, it had better open it read-only, as users do: `shared_run`.
    """
    with ExitStack() as opened:

        def make(**options: object) -> duckdb.DuckDBPyConnection:
            con = opened.enter_context(empty_database())
            create_tables(con)
            handmade.fill(con, **options)  # type: ignore[arg-type]
            return con

        yield make


@pytest.fixture(scope="session")
def shared_run(once: MakeOnce) -> Iterator[MakeRun]:
    """Open hand-made runs read-only; what one test has asked a run, the others need not compute."""
    opened: dict[str, duckdb.DuckDBPyConnection] = {}

    def share(**options: object) -> duckdb.DuckDBPyConnection:
        key = f"hand-made run {sorted(options.items())}"
        if key not in opened:
            opened[key] = open_database(once(key, ".duckdb", lambda path: write(path, **options)))
        return opened[key]

    yield share
    for con in opened.values():
        con.close()


def write(path: Path, changes: str = "", **options: object) -> Path:
    """Write a hand-made run, changed by SQL, to `path`."""
    with duckdb.connect(path) as con:
        create_tables(con)
        handmade.fill(con, **options)  # type: ignore[arg-type]
        con.execute(changes)
    return path


@pytest.fixture(scope="session")
def report_of(shared_run: MakeRun) -> MakeReport:
    """Return a function from the options of a hand-made run to all that its page shows."""
    built: dict[str, Report] = {}

    def report(**options: object) -> Report:
        key = str(sorted(options.items()))
        if key not in built:
            built[key] = build_report(shared_run(**options))
        return built[key]

    return report


@pytest.fixture(scope="session")
def page_of(once: MakeOnce, shared_run: MakeRun) -> MakePage:
    """Return a function from the options of a hand-made run to its page; leave that as it is."""

    def page(**options: object) -> Path:
        key = f"hand-made page {sorted(options.items())}"
        return once(key, ".html", lambda path: write_report(shared_run(**options), path))

    return page
