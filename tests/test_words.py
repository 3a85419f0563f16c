"""One number is written in one way, wherever it stands."""

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from traceweave import words

UNITS = {
    unit: 10 ** (3 * place)
    for units in ("ns us ms s", "B kB MB GB TB", "FLOP kFLOP MFLOP GFLOP TFLOP PFLOP EFLOP")
    for place, unit in enumerate(units.split())
}

digits = st.sampled_from([words.SENTENCE, words.TABLE])
values = st.one_of(
    st.integers(-(10**18), 10**18),
    st.floats(-1e18, 1e18, allow_nan=False).filter(lambda value: not 0 < abs(value) < 1e-9),
    st.integers(0, 18).flatmap(lambda power: st.integers(10**power - 100, 10**power + 100)),
)
quantities = st.sampled_from([words.duration, words.size, words.work])


def _read(text: str) -> Decimal:
    """Return what a quantity says, in its base unit."""
    figure, unit = text.split()
    return Decimal(figure.replace(",", "")) * UNITS[unit]


@cases
def test_a_duration_is_written_in_the_unit_that_fits_it(ns: float | None, text: str) -> None:
    assert words.duration(ns) == text


def test_a_table_has_one_digit_more_than_a_sentence() -> None:
    assert (words.duration(12_345_678), words.duration(12_345_678, words.TABLE)) == (
        "12.3 ms",
        "12.35 ms",
    )
    assert words.duration(999_500, words.TABLE) == "999.5 us"


@cases
def test_sizes_are_decimal(value: int | None, text: str) -> None:
    assert words.size(value) == text


@pytest.mark.parametrize(
    ("gbps", "text"), [(None, "-"), (202.41, "202 GB/s"), (0.0452, "45.2 MB/s"), (7e-7, "700 B/s")]
)
def test_bandwidths_are_decimal(gbps: float | None, text: str) -> None:
    assert words.rate(gbps) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (0.0, "0"), (3.0, "3"), (2.5, "2.5"), (2.004, "2"), (0.123456, "0.123"),
        (9.996, "10"), (1_234.5, "1,235"), (0.000881, "0.00088"), (1.2e-9, "1.2e-09"),
        (1e300, "1e+300"), (float("nan"), "nan"),
    ],
)  # fmt: skip
def test_plain_numbers_have_no_more_digits_than_they_need(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("fraction", "text", "change"),
    [
        (None, "-", "-"), (0, "0.0%", "0.0%"), (0.0001, "<0.1%", "<+0.1%"),
        (-0.0001, ">-0.1%", ">-0.1%"), (0.6124, "61.2%", "+61.2%"), (-0.0725, "-7.3%", "-7.3%"),
        (0.9999, ">99.9%", ">+99.9%"), (1, "100.0%", "+100.0%"), (57.464, "5,746.4%", "+5,746.4%"),
        (float("inf"), "inf", "inf"),
    ],
)  # fmt: skip
def test_a_share_is_a_percentage(fraction: float | None, text: str, change: str) -> None:
    assert words.percent(fraction) == text
    assert words.percent(fraction, signed=True) == change


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ([], "-"),
        ([3], "3"),
        ([0, 1], "0, 1"),
        ([5, 1, 0, 2], "0-2, 5"),
        ([7, 9, 10, 11], "7, 9-11"),
        (range(1024), "0-1023"),
        (range(0, 64, 2), "0, 2, 4, 6, 8, 10, 12, 14 and 24 more"),
    ],
)
def test_runs_of_ranks_are_folded(ranks: list[int], text: str) -> None:
    assert words.folded(ranks) == text


def test_counts_agree_with_their_noun() -> None:
    assert [words.plural(n, "rank") for n in (0, 1, 2_000)] == ["0 ranks", "1 rank", "2,000 ranks"]
    assert words.plural(2, "process", "processes") == "2 processes"
    assert [words.few(count, "step") for count in (1, 2, 3)] == [
        " (only 1 step)", " (only 2 steps)", "",
    ]  # fmt: skip
    assert [words.about(mean, "gap") for mean in (0.1, 1.4, 28.5)] == ["1 gap", "1 gap", "29 gaps"]
    assert (words.name_ranks([3]), words.name_ranks([0, 1])) == ("rank 3", "ranks 0 and 1")


def test_long_names_are_cut() -> None:
    assert words.shortened("x" * 60) == "x" * 60
    assert words.shortened("x" * 58 + " long") == "x" * 58 + "…"


def test_moments_are_utc() -> None:
    assert words.time_of_day(1_706_850_122_815_782_999) == "05:02:02.815782"
    assert words.date_and_time(1_706_850_122_815_782_999) == "2024-02-02 05:02:02 UTC"
    assert words.date_and_time("2024-02-02T06:02:02+01:00") == "2024-02-02 05:02:02 UTC"
    hours = [words.long_time(n * 3600 * 10**9) for n in (1, 5.04, 47, 216, 28_000)]
    assert hours == ["1.0 hours", "5.0 hours", "47.0 hours", "9 days", "3.2 years"]


def test_durations_on_one_scale_are_nothing_only_if_they_are() -> None:
    scale = words.duration_scale(42_000_000)
    written = [scale.text(ns) for ns in (42_000_000, 7_000_000, 4_999, 1, 0, -1, None)]
    assert scale.unit == "ms"
    assert written == ["42.00", "7.00", "<0.01", "<0.01", "0.00", ">-0.01", "-"]


@given(quantities, values, digits)
def test_what_is_written_is_the_value_to_its_last_digit(
    write: Callable[..., str], value: float, digits: int
) -> None:
    text = write(value, digits)
    exact = Decimal(repr(value))
    figure, unit = text.split()
    last = Decimal(1).scaleb(-len(figure.partition(".")[2])) * UNITS[unit]
    assert abs(_read(text) - exact) <= last / 2
    assert (_read(text) == 0) == (value == 0)
    least = 10 ** (digits - 1) if unit not in ("ns", "B", "FLOP") else 1
    assert value == 0 or int(re.sub(r"\D", "", figure)) >= least


@given(quantities, values, values, digits)
def test_what_is_more_is_never_written_as_less(
    write: Callable[..., str], one: float, other: float, digits: int
) -> None:
    low, high = sorted((one, other))
    assert _read(write(low, digits)) <= _read(write(high, digits))


@given(st.one_of(st.floats(-20, 20), st.floats(0, 0.002), st.floats(0.998, 1.002)))
def test_a_share_rounds_to_nothing_or_all_only_if_it_is_that(fraction: float) -> None:
    text = words.percent(fraction)
    assert (text == "0.0%") == (fraction == 0)
    if abs(fraction) < 1:
        assert "100.0" not in text
    figure = Decimal(re.sub(r"[<>%,]", "", text))
    assert abs(figure - Decimal(repr(fraction)) * 100) <= Decimal("0.1")


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_whole_list_of_ranks_can_be_read_back(ranks: set[int]) -> None:
    text = words.folded(ranks, most=len(ranks))
    read = [part.split("-") for part in text.split(", ")]
    assert [n for part in read for n in range(int(part[0]), int(part[-1]) + 1)] == sorted(ranks)
    shown = words.folded(ranks)
    more = int(shown.rpartition(" and ")[2].split()[0]) if " and " in shown else 0
    assert shown == text or text.startswith(shown.partition(" and ")[0])
    assert 0 <= more < len(ranks)


@cases
def test_a_title_begins_with_ranks_in_few_words(ranks: list[int], text: str) -> None:
    assert words.subject(ranks, "launches late", "launch late") == text
