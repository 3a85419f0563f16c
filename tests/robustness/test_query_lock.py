"""An ordinary query works under the lock; tests/attacks has what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from traceweave import api
from traceweave.store.draft import drafting


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lock") / "run.duckdb"
    with drafting(path):
        pass
    return path


ALLOWED = [
    "FROM meta", "TABLE meta", "VALUES (1)", "SHOW TABLES", "DESCRIBE ranks",
    "SUMMARIZE meta", "WITH x AS (SELECT 1) FROM x", "PIVOT meta ON name USING first(value)",
    "EXPLAIN SELECT 1", "EXPLAIN ANALYZE SELECT 1", "PRAGMA show_tables",
    "CREATE TEMP TABLE t AS SELECT 1; FROM t", "CREATE TEMP MACRO m(a) AS a + 1; SELECT m(1)",
    "SELECT * FROM json_each('{\"a\": 1}')", "SELECT strftime(now(), '%Y')", "SELECT 1 -- ; COPY",
]  # fmt: skip


@pytest.mark.parametrize("sql", ALLOWED)
def test_the_lock_is_not_in_the_way(database: Path, sql: str) -> None:
    with api.open(database) as run:
        assert run.stream(sql).read_all().num_columns > 0
