"""Columns of the page that are those of an analysis: what their header says, they say."""

from pathlib import Path

import pytest

import traceweave.report
from traceweave.analyses.catalog import catalog, find, rules
from traceweave.report.columns import rows_table
from traceweave.report.page import Column


def test_kind_unit_and_explanation_are_those_of_the_header() -> None:
    documented = {column.name: column.meaning for column in find("kernels").columns}
    table = rows_table(
        "t",
        "T",
        "kernels",
        {"kernel": "", "count": "Number", "total_ns": Column("", own_unit=True), "share": ""}
        | {"fastest_rank": Column("Rank", "int"), "mine": Column("Mine", "bytes", "of my own")},
        [{"kernel": "k", "count": 2, "total_ns": 5, "share": 0.5, "fastest_rank": 1, "mine": 7}],
    )
    assert [(c.label, c.kind) for c in table.columns] == [
        ("Kernel", "name"), ("Number", "count"), ("Total", "duration"), ("Share", "percent"),
        ("Rank", "int"), ("Mine", "bytes"),
    ]  # fmt: skip
    assert [c.note for c in table.columns[:-1]] == [documented[key] for key in (
        "kernel", "count", "total_ns", "share", "fastest_rank",
    )]  # fmt: skip
    assert table.columns[-1].note == "of my own"
    assert table.columns[2].own_unit
    assert table.rows == (("k", 2, 5, 0.5, 1, 7),)


@pytest.mark.parametrize("anchor", sorted({s.text("page") for s in (*catalog(), *rules())} - {""}))
def test_what_headers_say_is_shown_on_the_page_is_on_it(anchor: str) -> None:
    kind, _, name = anchor.partition("-")
    assert kind in ("table", "figure")
    folder = Path(traceweave.report.__file__).parent / "sections"
    texts = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert f'"{name}",' in texts
