"""Parsed statements serve every run that a process asks, whatever became of the first."""

import duckdb
import pytest

from traceweave.analyses import parsed as module
from traceweave.analyses.parsed import parsed

SQL = "SELECT $factor * i AS product FROM numbers"


def numbers(*found: int) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("CREATE TABLE numbers AS SELECT unnest(?::INTEGER[]) AS i", [list(found)])
    return con


def test_another_run_has_its_own_rows_and_values() -> None:
    with numbers(1, 2) as con:
        first = parsed(con, SQL)
        assert con.execute(first, {"factor": 10}).fetchall() == [(10,), (20,)]
    with numbers(7) as con:
        assert parsed(con, SQL) is first
        assert con.execute(first, {"factor": 3}).fetchall() == [(21,)]
        assert con.sql(first, params={"factor": 5}).fetchall() == [(35,)]


def test_no_more_than_so_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 2)
    monkeypatch.setattr(module, "_parsed", {})
    with numbers(1) as con:
        for wanted in range(5):
            rows = con.execute(parsed(con, f"SELECT {wanted} FROM numbers")).fetchall()
            assert rows == [(wanted,)]
            assert len(module._parsed) <= 2
