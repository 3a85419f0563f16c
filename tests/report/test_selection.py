"""Of many ranks the telling ones are shown, and quantiles stand for all."""

from hypothesis import given
from hypothesis import strategies as st

from tests.marks import nightly
from traceweave.report.selection import (
    HIGHEST,
    LOWEST,
    MANY_RANKS,
    MIDDLE,
    outliers,
    select_ranks,
    spread,
)


def _rows(values: list[int | None]) -> list[dict[str, int | None]]:
    return [{"rank": rank, "value": value} for rank, value in enumerate(values)]


def test_few_ranks_are_all_shown() -> None:
    rows = _rows(list(range(MANY_RANKS)))
    chosen = select_ranks(rows, lambda row: row["value"])
    assert (chosen.rows, chosen.partial, chosen.note("waiting", "x")) == (rows, False, "")


def test_of_many_the_ends_and_the_middle_are_shown_in_the_order_of_ranks() -> None:
    chosen = select_ranks(_rows(list(range(100))), lambda row: row["value"])
    # 88 to 99 are highest, 0 to 3 lowest, 48 to 51 in the middle
    assert [row["rank"] for row in chosen.rows] == [*range(4), *range(48, 52), *range(88, 100)]
    assert chosen.note("waiting", "SELECT 1") == (
        "Of 100 ranks, 20 are shown: the 12 with the most waiting, the 4 with the least, and 4"
        " around the median. All of them: SELECT 1"
    )


def test_a_rank_far_from_the_others_stands_out_and_a_few_percent_do_not() -> None:
    usual = [100, 101, 99, 100, 102, 98]
    rows = _rows([*usual, 110, 60])

    def value(row: dict[str, int | None]) -> float:
        return row["value"] or 0

    # median 100, half of the ranks within 1: 110 is 10 and 60 is 40 away
    assert outliers(rows, value) == [7, 6]
    # 102 is twice as far as the median rank, not four times
    assert outliers(_rows(list(usual)), value) == []
    # 2% is nothing, however alike the others are; of three ranks none is usual
    assert outliers(_rows([100, 100, 100, 100, 102]), value) == []
    assert outliers(_rows([1, 1, 100]), value) == []


def test_a_rank_of_unknown_value_is_shown() -> None:
    values: list[int | None] = list(range(60))
    values[30] = None
    chosen = select_ranks(_rows(values), lambda row: row["value"])
    assert 30 in [row["rank"] for row in chosen.rows]


@nightly
@given(st.lists(st.integers(0, 9), min_size=MANY_RANKS + 1, max_size=200))
def test_a_selection_has_its_size_and_holds_highest_and_lowest(values: list[int]) -> None:
    chosen = select_ranks(_rows(list(values)), lambda row: row["value"])
    shown = [row["value"] for row in chosen.rows]
    assert len(shown) == len({row["rank"] for row in chosen.rows}) == HIGHEST + MIDDLE + LOWEST
    assert (max(shown), min(shown)) == (max(values), min(values))


def test_the_spread_is_of_measured_values() -> None:
    assert spread(range(1, 101)) == [1, 50, 95, 100]
    assert spread([None, 7]) == [7, 7, 7, 7]
    assert spread([]) == [None, None, None, None]
