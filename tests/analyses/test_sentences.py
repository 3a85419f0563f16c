"""Numbers in the sentences of analyses: the functions that SQL calls write as words.py does."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.marks import nightly
from traceweave import words
from traceweave.analyses.runner import provide
from traceweave.analyses.sentences import WRITERS

values = st.one_of(
    st.integers(-(10**15), 10**15),
    st.floats(-1e18, 1e18, allow_nan=False),
    st.integers(0, 15).flatmap(lambda power: st.integers(10**power - 100, 10**power + 100)),
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        for _ in range(2):  # what is there already is no error
            provide(con, " ".join(WRITERS))
        yield con


@nightly
@given(st.lists(values, min_size=1, max_size=20))
def test_sentences_made_in_sql_have_the_same_numbers(
    con: duckdb.DuckDBPyConnection, numbers: list[float]
) -> None:
    rows = con.execute(
        "SELECT value, tw_time(value), tw_size(value), tw_digits(value), tw_percent(value),"
        " tw_about(value, 'gap') FROM (SELECT unnest($numbers::DOUBLE[]) AS value)",
        {"numbers": numbers},
    ).fetchall()
    assert len(rows) == len(numbers)
    for value, *written in rows:
        assert written == [
            words.duration(value), words.size(value), words.number(value), words.percent(value),
            words.about(value, "gap"),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("tw_time(1234567)", "1.23 ms"), ("tw_time(1234567::HUGEINT)", "1.23 ms"),
        ("tw_time(1234567.5::DECIMAL(20, 3))", "1.23 ms"), ("tw_time(NULL)", None),
        ("tw_size(33554432)", "33.6 MB"), ("tw_size(NULL::BIGINT)", None), ("tw_digits(3)", "3"),
        ("tw_percent(0.0001)", "<0.1%"), ("tw_many(1, 'rank')", "1 rank"),
        ("tw_many(sum(8000)::HUGEINT, 'rank')", "8,000 ranks"), ("tw_many(NULL, 'rank')", None),
        ("tw_about(0.2, 'gap')", "1 gap"), ("tw_about(NULL, 'gap')", None),
        ("tw_ranks([3])", "rank 3"), ("tw_ranks([2, 1, 0, 5]::INTEGER[])", "ranks 0-2, 5"),
        ("tw_ranks(range(0, 64, 2))", "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more"),
        ("tw_ranks([NULL, 1])", "rank 1"), ("tw_ranks(NULL)", None), ("tw_steps([3])", "step 3"),
        ("tw_steps([7, 8, 9, 12])", "steps 7-9, 12"), ("tw_shortened(repeat('x', 60))", "x" * 60),
        ("tw_shortened(repeat('x', 58) || ' long')", "x" * 58 + "…"), ("tw_shortened(NULL)", None),
    ],
)  # fmt: skip
def test_functions_of_sql_take_what_statements_have(
    con: duckdb.DuckDBPyConnection, call: str, text: str | None
) -> None:
    assert con.execute(f"SELECT {call}").fetchall() == [(text,)]
