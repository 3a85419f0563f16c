"""Rows that several queries of the report share: temporary, ordered, and gone when read."""

import duckdb
import pytest

import traceweave
from tests.conftest import Recorded
from tests.marks import nightly
from tests.report.conftest import MakeRun
from traceweave.analyses import analysis_relation
from traceweave.analyses.common import KEPT
from traceweave.errors import QueryError
from traceweave.report.query import (
    Row,
    analysis_rows,
    query_as,
    relation_rows,
    rows_as,
    standing_as,
)
from traceweave.report.render import build_report

TYPES = {"rank": "INTEGER", "caused_ns": "BIGINT"}


def _temporary(con: duckdb.DuckDBPyConnection) -> set[str]:
    views = con.execute("SELECT view_name FROM duckdb_views() WHERE temporary AND NOT internal")
    found = {name for (name,) in views.fetchall()}
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary")
    return found | {name for (name,) in tables.fetchall()}


def test_rows_stand_as_a_relation_with_their_types_and_nulls() -> None:
    rows: list[Row] = [
        {"rank": 3, "caused_ns": 2**62 + 1, "more": "x"},
        {"rank": 1, "caused_ns": None},
    ]
    with duckdb.connect() as con:
        with rows_as(con, "waits", rows, TYPES):
            read = con.execute("FROM waits")
            assert [(column[0], str(column[1])) for column in read.description or ()] == [
                ("rank", "INTEGER"),
                ("caused_ns", "BIGINT"),
            ]
            assert read.fetchall() == [(3, 2**62 + 1), (1, None)]
        assert _temporary(con) == set()


def test_no_rows_are_a_relation_too() -> None:
    with duckdb.connect() as con, rows_as(con, "waits", [], TYPES):
        assert con.execute("SELECT rank, caused_ns FROM waits").fetchall() == []


def test_a_relation_goes_with_its_block_when_something_fails() -> None:
    with duckdb.connect() as con:
        with pytest.raises(duckdb.CatalogException), standing_as(con, gaps="SELECT 1 AS rank"):
            con.execute("FROM gaps, nothing")
        assert _temporary(con) == set()


def test_a_query_keeps_its_order_as_a_relation(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=3)
    windows = {"rank": "INTEGER", "step": "BIGINT", "window_start_ns": "BIGINT",
               "window_ns": "BIGINT"}  # fmt: skip
    with (
        rows_as(con, "breakdown", analysis_rows(con, "breakdown"), windows),
        standing_as(con, step_lengths=f"FROM {analysis_relation(con, 'steps')}"),
        query_as(con, "shown_steps", "timeline_steps") as rows,
    ):
        assert rows["role"].to_pylist() == ["median", "longest"]
        assert con.table("shown_steps").fetchall() == [tuple(r.values()) for r in rows.to_pylist()]


def test_rows_of_a_relation_come_in_the_order_asked_for(make_run: MakeRun) -> None:
    rows = relation_rows(make_run(ranks=3, steps=1), "sources", "source_id DESC")
    assert [row["source_id"] for row in rows] == [2, 1, 0]
    assert rows[0]["path"] == "traces/rank2.json"


def test_rows_of_an_analysis_come_in_its_order(make_run: MakeRun) -> None:
    con = make_run(ranks=4, steps=3)
    expected = traceweave.analyses.run(con, "kernels").fetchall()
    assert con.table(analysis_relation(con, "kernels")).fetchall() == expected
    assert [tuple(row.values()) for row in analysis_rows(con, "kernels")] == expected


@nightly
def test_the_report_leaves_only_rows_of_analyses_behind(recorded: Recorded) -> None:
    run = recorded("ddp_gloo_4ranks")
    first = build_report(run.con)
    kept = _temporary(run.con)
    assert {name for name in kept if not name.startswith("tw_")} <= {*KEPT}
    assert any(name.startswith("tw_rows_gaps_") for name in kept)
    # and from those it is the same again
    assert build_report(run.con) == first


def test_an_analysis_that_fails_says_why_on_one_line() -> None:
    with duckdb.connect() as con, pytest.raises(QueryError) as raised:
        analysis_relation(con, "steps")
    assert str(raised.value).startswith("analysis steps cannot be run on this database: ")
    assert "\n" not in str(raised.value)
