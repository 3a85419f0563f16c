"""A run as a notebook shows it: what it is, and how it does on one screen."""

from __future__ import annotations

from html import escape

import duckdb

from traceweave import analyses, words
from traceweave.markup import table
from traceweave.overview import read_overview

_COLUMNS = ("answer", "value", "unit", "verdict", "rank", "step", "proof")


def run_html(con: duckdb.DuckDBPyConnection, name: str) -> str:
    """Return the facts of a run and the rows of `health` as HTML."""
    facts = escape(read_overview(con).facts)
    rows = analyses.run(con, "health").project(", ".join(_COLUMNS)).fetchall()
    return f"<p><b>{escape(name)}</b><br>{facts}</p>{table(_COLUMNS, map(_cells, rows))}"


def _cells(row: tuple[object, ...]) -> list[str]:
    return [words.cell(column, value) for column, value in zip(_COLUMNS, row, strict=True)]
