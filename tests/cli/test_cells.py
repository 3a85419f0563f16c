"""Numbers as people read them."""

from decimal import Decimal

import pytest

from traceweave import analyses
from traceweave.cli.cells import cell, headings
from traceweave.cli.layout import lay_out
from traceweave.store.schema import public_relations


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("wait_ns", 0, "0 ns"), ("wait_ns", 999, "999 ns"), ("wait_ns", 1_000, "1.000 us"),
        ("wait_ns", 12_345, "12.35 us"), ("wait_ns", 123_456_789, "123.5 ms"),
        ("wait_ns", -2_500_000_000, "-2.500 s"), ("wait_ns", Decimal(1500), "1.500 us"),
        ("start_ns", 1_706_850_122_815_782_999, "05:02:02.815782"), ("bytes", 999, "999 B"),
        ("bytes_from", 65536, "65.54 kB"), ("size_bytes", 2_971_111, "2.971 MB"),
        ("total", Decimal("6"), "6"), ("bytes", 136_012_890_112.0, "136.0 GB"),
        ("bytes", 999.5, "999.5 B"), ("model_flops", 146_372_485_447_680.0, "146.4 TFLOP"),
        ("flops", 5_497_558_138_880, "5.498 TFLOP"), ("recomputed_flops", 0.0, "0 FLOP"),
        ("flops", 2_000.0, "2.000 kFLOP"), ("model_tflops", 30.7393, "30.74"),
        ("mfu", 0.09486, "9.5%"), ("mfu", float("nan"), "nan"), ("wait_ns", float("-inf"), "-inf"),
        ("value", float("inf"), "inf"), ("relative", -0.01945, "-1.9%"),
        ("load_balance", 0.98912, "98.9%"), ("relative", 96.46, "9,646.0%"),
        ("ratio", 0.123456, "0.1235"), ("ratio", 12345.678, "12,346"), ("complete", True, "yes"),
        ("name", "a\tb\x1b", "a\\tb\\x1b"), ("name", None, "-"), ("step", 12_345, "12345"),
        ("ranks", [0, 1, 2, 5], "0-2, 5"), ("ranks", [], "[]"), ("other", [0, 1, 2], "[0, 1, 2]"),
    ],
)  # fmt: skip
def test_values_are_shown_in_the_unit_of_their_column(name: str, value: object, text: str) -> None:
    assert cell(name, value) == text


def test_no_two_columns_have_the_same_heading() -> None:
    assert headings(["host_op", "host_op_ns", "wait_ns", "peak_bytes", "bytes"]) == [
        "host_op", "host_op_time", "wait", "peak", "size",
    ]  # fmt: skip
    assert headings(["size", "bytes"]) == ["size", "bytes"]
    assert headings(["sent_bytes", "sent_ns"]) == ["sent_size", "sent_time"]
    for documented in [*analyses.catalog(), *public_relations()]:
        shown = headings([column.name for column in documented.columns])
        assert len(set(shown)) == len(shown)


def test_text_is_cut_and_numbers_never() -> None:
    lines, empty, crowded = lay_out(
        ["name", "count"], [["x" * 50, "123456789"]], [False, True], width=30
    )
    assert lines == [
        "name                     count",
        "───────────────────  ─────────",
        "xxxxxxxxxxxxxxxxxx…  123456789",
    ]
    assert (empty, crowded) == ([], [])


def test_a_table_without_rows_shows_its_first_columns() -> None:
    lines, empty, crowded = lay_out(["rank", "first", "second"], [], [True, True, True], width=12)
    assert (lines, empty, crowded) == (["rank  first", "────  ─────"], [], [])


def test_a_table_too_wide_repeats_its_keys_below_and_drops_empty_columns() -> None:
    lines, empty, crowded = lay_out(
        ["rank", "first", "empty", "second"],
        [["0", "1" * 12, "-", "2" * 12], ["1", "3" * 12, "", "4" * 12]],
        [True, True, True, True],
        width=20,
    )

    assert lines == [
        "rank         first", "────  ────────────", "   0  111111111111", "   1  333333333333", "",
        "rank        second", "────  ────────────", "   0  222222222222", "   1  444444444444",
    ]  # fmt: skip
    assert (empty, crowded) == (["empty"], [])


def test_what_every_row_of_a_wide_table_says_is_said_once_below_it() -> None:
    names, first = ["rank", "first", "timeline", "second"], ["0", "1" * 12, "gpu", "2" * 12]
    rows = [first, ["1", "3" * 12, "gpu", "2" * 12]]
    numeric = [True, True, False, True]

    narrow, empty, crowded = lay_out(names, rows, numeric, width=24)
    wide, *_ = lay_out(names, rows, numeric, width=60)
    single, *_ = lay_out(names, [first], numeric, width=24)

    assert narrow == [
        "rank         first", "────  ────────────", "   0  111111111111", "   1  333333333333", "",
        "In every row above:", "timeline = gpu; second =", "222222222222",
    ]  # fmt: skip
    assert (empty, crowded) == ([], [])
    assert wide[0] == "rank         first  timeline        second"
    assert "In every row" not in "".join([*wide, *single])


def test_a_wide_table_names_its_rows_in_every_block_by_its_first_column() -> None:
    rows = [["step time", "12 ms", "breakdown"], ["ranks", "16", "pop"]]
    lines, empty, crowded = lay_out(
        ["answer", "value", "proof"], rows, [False, True, False], width=20
    )
    assert lines == [
        "answer     value", "─────────  ─────", "step time  12 ms", "ranks         16", "",
        "answer     proof", "─────────  ─────────", "step time  breakdown", "ranks      pop",
    ]  # fmt: skip
    assert (empty, crowded) == ([], [])
