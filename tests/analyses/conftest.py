from __future__ import annotations

import duckdb
import pytest

from tests.analyses.builders import Builder


@pytest.fixture
def build(empty_run: duckdb.DuckDBPyConnection) -> Builder:
    return Builder(empty_run)
