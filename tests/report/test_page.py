"""Tables choose units and prepare cells."""

from __future__ import annotations

from traceweave.report.page import Cell, Column, Head, Span, Table


def test_durations_of_a_table_share_the_unit_of_the_largest() -> None:
    table = Table(
        "t",
        "T",
        (
            Column("Rank", "int"),
            Column("Long", "duration", group="Times"),
            Column("Short", "duration", group="Times"),
            Column("Own", "duration", own_unit=True),
            Column("Share", "percent"),
        ),
        ((0, 42_000_000, 1_500, 900, 0.5), (1, None, 7_000_000, 2_500, None)),
    )
    assert table.heads() == [
        Head("Rank", "", "", numeric=True),
        Head("Long", "ms", "", numeric=True),
        Head("Short", "ms", "", numeric=True),
        Head("Own", "us", "", numeric=True),
        Head("Share", "%", "", numeric=True),
    ]
    assert table.spans() == [Span("", 1), Span("Times", 2), Span("", 2)]
    assert table.cells() == [
        [
            Cell("0", "0"),
            Cell("42.00", "42000000"),
            Cell("<0.01", "1500"),
            Cell("0.900", "900"),
            Cell("50.0", "0.5"),
        ],
        [
            Cell("1", "1"),
            Cell("-", ""),
            Cell("7.00", "7000000"),
            Cell("2.500", "2500"),
            Cell("-", ""),
        ],
    ]


def test_a_long_name_is_shortened_and_kept_whole() -> None:
    name = "void " + "x" * 100
    table = Table("t", "T", (Column("Name", "name"), Column("Ranks")), ((name, [0, 1, 2]),))
    assert table.cells() == [[Cell(name[:71] + "…", name, name), Cell("0-2", "3")]]


def test_a_table_without_rows_has_heads() -> None:
    table = Table("t", "T", (Column("Length", "duration"),), ())
    assert table.heads() == [Head("Length", "ns", "", numeric=True)]
    assert table.cells() == []
