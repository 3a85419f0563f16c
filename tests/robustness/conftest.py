"""One database for all damaged files, emptied between them: creating its tables takes longest."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from tests.robustness.loading import Outcome, forget, load_file
from traceweave.store.empty import create_tables

Load = Callable[..., Outcome]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: looks at a page in a real Chromium")


@pytest.fixture(scope="package")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute("SET threads = 2")
        create_tables(con)
        yield con


@pytest.fixture
def load(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> Load:
    """Write bytes as a file and load it into the emptied tables."""

    def write_and_load(data: bytes, name: str = "trace.json") -> Outcome:
        forget(con)
        path = tmp_path / name
        path.write_bytes(data)
        return load_file(con, path)

    return write_and_load
