"""Analyses as functions of SQL: on real traces, the same rows as asking for them by name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import traceweave
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
@pytest.mark.parametrize(
    ("call", "params"),
    [
        ("gaps(min_gap_ns := 100_000)", {"min_gap_ns": 100_000}),
        ("gaps(min_gap_ns => 10 * 10000)", {"min_gap_ns": 100_000}),
        ("gaps(min_gap_ns := '100us')", {"min_gap_ns": 100_000}),
        ("gaps(min_gap_ns := 1e5)", {"min_gap_ns": 100_000}),
        ("gaps('stream', min_gap_ns := 100_000)", {"per": "stream", "min_gap_ns": 100_000}),
        ("GAPS(\"window\" := 'host')", {"window": "host"}),
        pytest.param("findings(min_share := 0.05)", {"min_share": 0.05}, marks=nightly),
        ("kernels(rank := 2, step := NULL)", {"rank": 2}),
        ("main.ranks()", {}),
    ],
)
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
@pytest.mark.parametrize(
    "query",
    [
        "WITH g AS (FROM gaps()) SELECT count(*) FROM g",
        "SELECT (SELECT count(*) FROM gaps())",
        "CREATE TEMP TABLE kept AS FROM gaps(); SELECT count(*) FROM kept",
        "CREATE TEMP VIEW v AS FROM gaps(); SELECT count(*) FROM v",
        "PIVOT (SELECT 1 AS one FROM gaps()) ON one USING count(*)",
        "CREATE TEMP TABLE other AS SELECT 'gaps(x)' /* gaps(1, 2) */ FROM \"gaps\" (\n);"
        " FROM other SELECT count(*)",
        "CREATE TEMP TABLE n AS SELECT 0 AS n; UPDATE n SET n = (SELECT count(*) FROM gaps()) WHERE"
        " n < 1; FROM n",
    ],
)
def test_calls_are_found_wherever_sql_allows_them(run: traceweave.Run, query: str) -> None:
    assert run.sql(query).iloc[0, 0] == len(run.gaps())


def test_several_values_are_kept_apart(run: traceweave.Run) -> None:
    both = run.sql(
        "SELECT (SELECT count(*) FROM gaps()) AS every, (SELECT count(*) FROM gaps(min_gap_ns :="
        " 1000000)) AS long"
    )

    assert both.iloc[0].tolist() == [len(run.gaps()), len(run.gaps(min_gap_ns=1_000_000))]
    assert both["long"][0] < both["every"][0]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("FROM gaps(min_gap := 3)", "gaps has no parameter 'min_gap'; did you mean 'min_gap_ns'?"),
        ("FROM gaps(min_gap_ns := 'x')", "min_gap_ns takes a whole number of ns, or a time"),
        ("FROM gaps(min_gap_ns := 1.5)", "a time such as 100us, not 1.5; default: 1000"),
        ("FROM gaps(per := 'steam')", "parameter per cannot be 'steam'; did you mean 'stream'?"),
        ("FROM gaps(1, 2, 3, 4, 5)", "gaps takes each of its parameters once: per, min_gap_ns"),
        ("FROM steps(1)", "steps takes each of its parameters once: it has none"),
        ("CALL gaps(nope := 1)", "gaps has no parameter 'nope'"),
        ("FROM ranks r, gaps(min_gap_ns := r.rank)", "has to be constant"),
        ("FROM gaps(window := 'host')", "takes quotes, since WINDOW is a word of SQL"),
        ("FROM gap()", "Table Function with name gap does not exist"),
        ("FROM other.gaps()", "'gaps' is an analysis; in SQL it is a function: FROM gaps()"),
        ("FROM tw_only_run_sql_computes_gaps_00", "gaps_00 does not exist"),
        ("FROM tw_only_run_sql_computes_gaps_7BFF7D", "gaps_7BFF7D does not exist"),
        ("FROM gaps(min_gap_ns = 9)", "gaps(min_gap_ns = …) compares; write gaps(min_gap_ns := …)"),
        ("FROM gaps(step = 5)", "gaps has no parameter 'step': it is a column; traceweave query"),
        ("FROM ranks, (FROM gaps(per == 'stream'))", "write gaps(per := …)"),
    ],
)
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
