"""Numbers are written the way people read them."""

from __future__ import annotations

import pytest

from traceweave.report import quantities


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "–"),
        (0, "0 ns"),
        (812, "812 ns"),
        (12_345, "12.3 µs"),
        (9_999_000, "10.00 ms"),
        (412_400_000, "412 ms"),
        (1_234_000_000, "1.23 s"),
        (3_600_000_000_000, "3,600 s"),
        (-12_345, "-12.3 µs"),
    ],
)
def test_a_duration_is_written_in_the_unit_that_fits_it(ns: int | None, text: str) -> None:
    assert quantities.duration(ns) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (None, "–"),
        (0, "0.0%"),
        (0.0001, "<0.1%"),
        (0.6124, "61.2%"),
        (0.9999, ">99.9%"),
        (1, "100.0%"),
    ],
)
def test_a_share_never_rounds_to_nothing_or_all(fraction: float | None, text: str) -> None:
    assert quantities.percent(fraction) == text


def test_sentences_of_analyses_get_the_microsecond_of_the_page() -> None:
    assert quantities.told("idles 12.3 us per step of status us") == (
        "idles 12.3 µs per step of status us"
    )


@pytest.mark.parametrize(
    ("gbps", "text"), [(None, "–"), (202.41, "202 GB/s"), (0.0452, "45.2 MB/s"), (7e-7, "700 B/s")]
)
def test_bandwidths_are_decimal(gbps: float | None, text: str) -> None:
    assert quantities.gbps(gbps) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (33_554_432, "33.6 MB"), (1_500_000_000, "1.50 GB")],
)
def test_sizes_are_decimal(value: int | None, text: str) -> None:
    assert quantities.size(value) == text


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0, 1"), ([0, 1, 2, 5], "0–2, 5"), ([7, 9, 10, 11], "7, 9–11")],
)
def test_runs_of_ranks_are_folded(ranks: list[int], text: str) -> None:
    assert quantities.rank_list(ranks) == text


def test_counts_agree_with_their_noun() -> None:
    assert [quantities.plural(n, "rank") for n in (0, 1, 2_000)] == [
        "0 ranks",
        "1 rank",
        "2,000 ranks",
    ]
