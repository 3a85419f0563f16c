"""Tables choose units and prepare cells."""

from traceweave.report.page import Cell, Column, Head, Span, Table


def test_durations_of_a_table_share_the_unit_of_the_largest() -> None:
    table = Table(
        "t",
        "T",
        (
            Column("Rank", "int"), Column("Long", "duration", group="Times"),
            Column("Short", "duration", group="Times"), Column("Own", "duration", own_unit=True),
            Column("Share", "percent"),
        ),
        ((0, 42_000_000, 1_500, 900, 0.5), (1, None, 7_000_000, 2_500, None)),
    )  # fmt: skip
    assert table.heads() == [
        Head("Rank", "", "", numeric=True), Head("Long", "ms", "", numeric=True),
        Head("Short", "ms", "", numeric=True), Head("Own", "us", "", numeric=True),
        Head("Share", "%", "", numeric=True),
    ]  # fmt: skip
    assert table.spans() == [Span("", 1), Span("Times", 2), Span("", 2)]
    assert table.cells() == [
        [
            Cell("0", "0"), Cell("42.00", "42000000"), Cell("<0.01", "1500"), Cell("0.900", "900"),
            Cell("50.0", "0.5"),
        ],
        [
            Cell("1", "1"), Cell("-", ""), Cell("7.00", "7000000"), Cell("2.500", "2500"),
            Cell("-", ""),
        ],
    ]  # fmt: skip


def test_sizes_to_be_compared_share_a_unit_and_others_do_not() -> None:
    sizes = (Column("Base", "bytes", shared_unit=True), Column("New", "bytes", shared_unit=True))
    table = Table("t", "T", (*sizes, Column("Any", "bytes")), ((2_500_000_000, 40_000_000, 8),))
    assert [head.unit for head in table.heads()] == ["GB", "GB", ""]
    assert [cell.text for cell in table.cells()[0]] == ["2.500", "0.040", "8 B"]


def test_columns_without_values_are_named_once_and_sentences_are_many_columns() -> None:
    columns = (
        Column("Rank", "int"), Column("Host"), Column("Try", group="To do"),
        Column("Cost", "duration"),
    )  # fmt: skip
    table = Table("t", "T", columns, ((0, None, "x" * 40, 1_000), (1, None, "", None)), note="N.")
    known = table.known()
    assert [column.label for column in known.columns] == ["Rank", "Try", "Cost"]
    assert known.note == "Without a value: Host. N."
    assert known.rows == ((0, "x" * 40, 1_000), (1, "", None))
    assert known.labels() == ["Rank", "To do Try", "Cost us"]
    assert known.known() is known
    assert (known.wordy, Table("t", "T", columns, ((0, "y" * 29, "x" * 40, 1),)).wordy) == (
        False,
        True,
    )


def test_a_long_name_is_shortened_and_kept_whole() -> None:
    name = "void " + "x" * 100
    table = Table("t", "T", (Column("Name", "name"), Column("Ranks")), ((name, [0, 1, 2]),))
    assert table.cells() == [[Cell(name[:71] + "…", name, name), Cell("0-2", "3")]]


def test_a_table_without_rows_has_heads() -> None:
    table = Table("t", "T", (Column("Length", "duration"),), ())
    assert table.heads() == [Head("Length", "ns", "", numeric=True)]
    assert table.cells() == []
