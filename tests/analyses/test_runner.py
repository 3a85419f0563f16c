"""How analyses read the rows of others, and when those are computed again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.analyses.builders import Builder, rows
from tests.marks import first_at_once, nightly
from traceweave import analyses
from traceweave.analyses import Analysis, runner
from traceweave.analyses.catalog import parse
from traceweave.analyses.question import Question
from traceweave.analyses.runner import materialize, prepare, provide
from traceweave.errors import QueryError
from traceweave.store.database import open_database
from traceweave.store.empty import create_tables

READER = """\
-- analysis: reader | gaps of others
-- answers: Which?
-- topic: time
-- grain: one row per gap
-- param: least BIGINT = 5 | smallest
-- param: side VARCHAR = 'stream' | unused
-- column: start_ns BIGINT | start
-- order: start_ns
SELECT start_ns FROM {{ ref('gaps', window='span', min_gap_ns=param('least')) }}
ORDER BY start_ns
"""


def _two_gaps(build: Builder) -> None:
    build.rank(0)
    for start in (0, 20, 100):
        build.gpu(0, (start, start + 10))
    build.write()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database file with gaps of 10 and 70 ns on one rank."""
    path = tmp_path / "run.duckdb"
    with duckdb.connect(path) as con:
        create_tables(con)
        _two_gaps(Builder(con))
    return path


def _tables(con: duckdb.DuckDBPyConnection) -> list[str]:
    names = con.execute(
        "SELECT table_name FROM duckdb_tables() WHERE temporary ORDER BY 1"
    ).fetchall()
    return [name for (name,) in names if name.startswith("tw_rows_")]


def _read(con: duckdb.DuckDBPyConnection, analysis: Analysis, **params: object) -> list[int]:
    sql = prepare(con, analysis, analysis.bind(params))
    return [start for (start,) in con.execute(sql).fetchall()]


@nightly
@pytest.mark.parametrize(("least", "starts"), [(5, [10, 30]), (11, [30])])
def test_an_analysis_reads_the_rows_of_another_with_its_own_parameters(
    build: Builder, least: int, starts: list[int]
) -> None:
    _two_gaps(build)
    reader = parse("reader", READER)
    assert _read(build.con, reader, least=least) == starts
    direct = rows(build.con, "gaps", window="span", min_gap_ns=least)
    assert sorted(row["start_ns"] for row in direct) == starts


@nightly
def test_the_statement_that_runs_names_a_table_in_place_of_what_it_reads(build: Builder) -> None:
    _two_gaps(build)
    sql = prepare(build.con, parse("reader", READER), {"least": 5})
    [table] = _tables(build.con)
    assert sql == f"SELECT start_ns FROM {table}\nORDER BY start_ns"


def test_what_a_read_only_database_was_asked_is_not_computed_again(database: Path) -> None:
    with open_database(database) as con:
        first = analyses.run(con, "pop").fetchall()
        [table] = _tables(con)
        # a mark in the kept rows shows that they are what the next question reads
        con.execute(f"UPDATE {table} SET compute_ns = compute_ns + 1")
        second = analyses.run(con, "pop").fetchall()
        assert [row[4] for row in second] == [row[4] + 1 for row in first]
        analyses.run(con, "pop", window="span").fetchall()
        assert len(_tables(con)) == 2
        analyses.run(con, "pop", window="device").fetchall()
        assert len(_tables(con)) == 2


def test_another_connection_has_none_of_it(database: Path) -> None:
    with open_database(database) as con, open_database(database) as other:
        analyses.run(con, "pop").fetchall()
        assert len(_tables(con)) == 1
        assert _tables(other) == []


def test_what_changes_in_a_writable_database_is_seen(build: Builder) -> None:
    _two_gaps(build)
    reader = parse("reader", READER)
    assert _read(build.con, reader) == [10, 30]
    build.gpu(0, (40, 90))
    assert _read(build.con, reader) == [10, 30, 90]


@nightly
def test_what_one_question_reads_twice_is_computed_once(
    build: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    _two_gaps(build)
    once = "SELECT start_ns FROM {{ ref('gaps', window='span', min_gap_ns=5) }}"
    computed = []

    def prepared(con: duckdb.DuckDBPyConnection, analysis: Analysis, *more: Any) -> str:
        computed.append(analysis.name)
        return prepare(con, analysis, *more)

    monkeypatch.setattr(runner, "prepare", prepared)
    twice = replace(parse("reader", READER), sql=f"{once} UNION ALL {once} ORDER BY ALL")
    sql = prepare(build.con, twice, {})
    assert build.con.execute(sql).fetchall() == [(10,), (10,), (30,), (30,)]
    assert computed == ["gaps"]


@nightly
def test_a_kept_table_has_the_columns_and_the_order_of_its_analysis(build: Builder) -> None:
    _two_gaps(build)
    gaps = analyses.find("gaps")
    values = gaps.bind({"min_gap_ns": 5})
    kept = build.con.sql(f"SELECT * FROM {materialize(build.con, gaps, values)}")
    assert kept.columns == [column.name for column in gaps.columns]
    assert kept.fetchall() == analyses.run(build.con, "gaps", min_gap_ns=5).fetchall()


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("ref('x', b=none)", "default"),
        ("ref('x', a='two words')", "two words"),
        ("ref('x', a=param('own'))", "own's"),
        ("ref('x')", "default"),
    ],
)
def test_arguments_are_literals_or_parameters(build: Builder, call: str, value: str) -> None:
    header = READER.split("-- param")[0].replace("reader", "x")
    parameters = "-- param: a VARCHAR = 'default' | a\n-- param: b BIGINT = NULL | b\n"
    select = "SELECT {{ param('a') }} AS a, {{ param('b') }} AS b"
    other = parse("x", f"{header}{parameters}-- order: a\n{select}")
    own = READER.split("SELECT")[0] + "-- param: own VARCHAR = 'own''s' | own\n"
    reader = parse("reader", f"{own}SELECT a, b FROM {{{{ {call} }}}}")
    reader = replace(reader, find=lambda _: [other])
    sql = prepare(build.con, reader, {"own": "own's"})
    assert build.con.execute(sql).fetchall() == [(value, None)]


def test_a_wrong_argument_is_refused(build: Builder) -> None:
    wrong = parse("reader", READER.replace("window='span'", "window='spam'"))
    with pytest.raises(QueryError, match="parameter window cannot be 'spam'"):
        _read(build.con, wrong)


@nightly
def test_macros_come_with_those_that_they_call(build: Builder) -> None:
    provide(build.con, "SELECT * FROM tw_gaps('span', 'device', 1, 30000, 'each')")
    made = build.con.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions()"
        " WHERE starts_with(function_name, 'tw_')"
    ).fetchall()
    assert {"tw_gaps", "tw_windows", "tw_own_ops", "tw_can_stall"} <= {name for (name,) in made}
    tables = build.con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
    assert {"tw_holds", "tw_call_names", "tw_range_names"} <= {name for (name,) in tables}


def test_tables_of_macros_are_made_once_per_question(build: Builder) -> None:
    sql = "SELECT name FROM tw_call_names ORDER BY name"
    provide(build.con, sql)
    assert build.con.execute(sql).fetchall() == []
    build.host(0, (0, 10), "cudaMalloc", kind="runtime")
    question = Question(build.con)
    provide(build.con, sql, question)
    assert build.con.execute(sql).fetchall() == [("cudaMalloc",)]
    build.host(0, (20, 30), "cudaFree", kind="runtime")
    provide(build.con, sql, question)
    assert build.con.execute(sql).fetchall() == [("cudaMalloc",)]


@first_at_once()
@pytest.mark.parametrize("asked_before", [False, True])
def test_no_transaction_takes_back_what_a_question_has_created(
    database: Path, asked_before: bool
) -> None:
    with open_database(database) as con:
        if asked_before:
            analyses.run(con, "gaps").fetchall()
        con.execute("BEGIN")
        with pytest.raises(QueryError, match="not asked within a transaction"):
            analyses.run(con, "gaps")
        con.execute("ROLLBACK")
        assert len(analyses.run(con, "gaps", min_gap_ns=5).fetchall()) == 2
