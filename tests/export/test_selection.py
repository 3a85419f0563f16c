"""What users may ask for, and what they are told if they may not."""

import pytest
from duckdb import DuckDBPyConnection as Connection

from tests.cases import cases
from traceweave.errors import UsageError
from traceweave.export.selection import Selection, parse_ranges, parse_time, select


@pytest.fixture
def run(empty_run: Connection) -> Connection:
    empty_run.execute(
        "INSERT INTO base.rank_sources BY NAME SELECT rank, 0 AS source_id, '' AS rank_source,"
        " 'kineto' AS format, 10_000 + rank AS first_local_ns, 20_000 AS last_local_ns"
        " FROM (VALUES (0), (1), (2), (5)) AS t (rank);"
        "INSERT INTO clocks VALUES (0, NULL, 1, -4000, 0, 0, NULL, NULL, NULL, 9, '', 'aligned')"
    )
    return empty_run


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", ((0, 0),)), ("0,3-5", ((0, 0), (3, 5))), (" 7 , 1 - 2 ", ((7, 7), (1, 2)))],
)
def test_numbers_are_written_as_ranges(text: str, expected: tuple[tuple[int, int], ...]) -> None:
    assert parse_ranges(text) == expected


@pytest.mark.parametrize("text", ["", "a", "1-", "5-3", "1,,2", "-1", "1.5", "9" * 30])
def test_what_is_no_list_of_numbers_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is not a list of numbers; write them like 0,3-5"):
        parse_ranges(text)


@cases
def test_times_are_nanoseconds_or_offsets(text: str, expected: int) -> None:
    assert parse_time(text, 1_000) == expected


@pytest.mark.parametrize("text", ["1.5s", "+1", "+s", "-5", "", "+1h", "nan"])
def test_what_is_no_time_is_said(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a time; write aligned nanoseconds, or an offset"):
        parse_time(text, 0)


def test_a_time_beyond_the_database_is_said() -> None:
    with pytest.raises(UsageError, match="is outside the times"):
        parse_time("9999999999999999999", 0)


def test_ranks_are_checked_and_offsets_count_from_the_aligned_start(run: Connection) -> None:
    chosen = select(run, ranks="0-1,5", start="+1us", end=9_000)
    assert chosen == Selection(ranks=(0, 1, 5), start_ns=7_000, end_ns=9_000)
    assert select(run, ranks=[2, 0]).ranks == (0, 2)


@cases
def test_what_the_run_does_not_have_is_said(
    run: Connection, asked: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        select(run, **asked)  # type: ignore[arg-type]
