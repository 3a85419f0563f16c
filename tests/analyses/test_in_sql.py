"""Analyses as functions of SQL: on real traces, the same rows as asking for them by name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import traceweave
from tests.cases import cases
from tests.marks import at_once, first_at_once, nightly
from traceweave import analyses


@pytest.fixture(scope="module")
def run(fixtures: Path, database_of: Callable[..., Path]) -> Iterator[traceweave.Run]:
    """One run for many questions, which need not be answered twice."""
    with traceweave.open(database_of(fixtures / "ddp_gloo_straggler")) as opened:
        yield opened


@pytest.mark.parametrize(
    "name",
    at_once(["gaps", "breakdown", "groups", "health", "stragglers", "memory"], "gaps", "breakdown"),
)
def test_every_analysis_is_a_function(run: traceweave.Run, name: str) -> None:
    pd.testing.assert_frame_equal(run.sql(f"FROM {name}()"), run.analyze(name))


@first_at_once(3)
@cases
def test_parameters_are_given_in_every_way_of_sql(
    run: traceweave.Run, call: str, params: dict[str, object]
) -> None:
    name = call.partition("(")[0].rpartition(".")[2].lower()
    pd.testing.assert_frame_equal(run.sql(f"FROM {call}"), run.analyze(name, **params))


def test_values_that_are_prepared_reach_the_analysis(run: traceweave.Run) -> None:
    expected = run.gaps(min_gap_ns=100_000)
    for query, params in (
        ("FROM gaps(min_gap_ns := ?)", [100_000]),
        ("FROM gaps(min_gap_ns := $least)", {"least": 100_000}),
    ):
        pd.testing.assert_frame_equal(run.sql(query, params), expected)


def test_analyses_join_like_tables(run: traceweave.Run) -> None:
    joined = run.sql(
        "SELECT b.rank, b.step, b.idle_ns, sum(g.duration_ns) AS gaps_ns"
        " FROM breakdown() b JOIN gaps(min_gap_ns := 0) g USING (rank, step)"
        " SEMI JOIN ranks USING (rank) GROUP BY ALL"
    )
    assert len(joined) > 0
    assert (joined["idle_ns"] == joined["gaps_ns"]).all()


@first_at_once(3)
@cases
def test_calls_are_found_wherever_sql_allows_them(run: traceweave.Run, query: str) -> None:
    assert run.sql(query).iloc[0, 0] == len(run.gaps())


def test_several_values_are_kept_apart(run: traceweave.Run) -> None:
    both = run.sql(
        "SELECT (SELECT count(*) FROM gaps()) AS every, (SELECT count(*) FROM gaps(min_gap_ns :="
        " 1000000)) AS long"
    )
    assert both.iloc[0].tolist() == [len(run.gaps()), len(run.gaps(min_gap_ns=1_000_000))]
    assert both["long"][0] < both["every"][0]


@cases
def test_a_wrong_call_is_explained_in_one_line(
    run: traceweave.Run, query: str, message: str
) -> None:
    for _ in range(2):  # the second time the function is there already
        with pytest.raises(traceweave.QueryError) as error:
            run.sql(query)
        assert message in str(error.value)
        assert "\n" not in str(error.value)


def test_no_analysis_is_called_like_a_function_of_duckdb() -> None:
    with duckdb.connect() as con:
        there = con.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    assert not {name for (name,) in there} & {analysis.name for analysis in analyses.catalog()}


def test_duckdb_alone_says_what_computes_an_analysis(run: traceweave.Run) -> None:
    run.sql("FROM gaps()")
    with pytest.raises(duckdb.CatalogException, match="tw_only_run_sql_computes_gaps_"):
        run.con.sql("FROM gaps(min_gap_ns := 17)")


@nightly
def test_a_run_folder_answers_alike(fixtures: Path, tmp_path: Path, run: traceweave.Run) -> None:
    folder = tmp_path / "run.tw"
    assert traceweave.ingest([fixtures / "ddp_gloo_straggler"], folder).ok
    query = "FROM breakdown() b JOIN stragglers() s USING (rank) ORDER BY ALL"
    with traceweave.open(folder) as sharded:
        pd.testing.assert_frame_equal(sharded.sql(query), run.sql(query))
