"""The number that a rule is about, in one run, and the rows that it is made of."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TypeAlias

import duckdb

from traceweave import analyses
from traceweave.checks.counted import rows_behind
from traceweave.checks.rules import AGGREGATES, Rule, no_column
from traceweave.comparison import Comparison
from traceweave.errors import QueryError, UsageError
from traceweave.replay import what_if
from traceweave.store.database import first_line
from traceweave.words import plural

Behind: TypeAlias = tuple[duckdb.DuckDBPyRelation, str]
"""Rows and the column of them that a number is made of; '' where it is none, as their number."""


@dataclass(frozen=True)
class Measured:
    """The number that a rule is about, in one run."""

    value: float | None
    missing: str = ""
    """Why it is None."""
    behind: Callable[[], Behind | None] | None = None
    """Returns the rows that it is made of, as far as the rule tells."""
    undecided: str = ""
    """Why the comparison that it is a number of cannot tell, if so."""


def measure(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> Measured:
    """Return the number that a rule is about; without a value for NULL, and for NaN.

    `comparison` returns that with the baseline for the smallest change that counts; only rules with
    `compare` ask it. Raises UsageError where the rule does not give one number of the run,
    QueryError where its SQL cannot be run.
    """
    try:
        given = _given(con, rule, comparison)
        behind: Callable[[], Behind | None]
        if rule.sql is not None:
            rows = _scalar(con, rule, given)
            behind = partial(_counted, con, rule.sql, given)
        else:
            about = _asked(rule, given)
            counts = rule.aggregate == "count"
            behind = partial(_of_column, about, "" if counts else str(rule.column))
            rows = _aggregated(about, rule)
        if len(rows) == 1 and rows[0] == (None,):
            return Measured(None, _why_null(rule, given))
    except duckdb.Error as error:
        raise QueryError(f"{rule.title}: {first_line(error)}") from error
    if len(rows) != 1 or len(rows[0]) != 1:
        raise UsageError(
            f"{rule.title}: its SQL has to give one row with one column; it gives"
            f" {plural(len(rows), 'row')}"
            + (f" with {plural(len(rows[0]), 'column')}" if rows else "")
        )
    value = rows[0][0]
    if not isinstance(value, int | float | Decimal):
        raise UsageError(f"{rule.title}: {rule.metric} is not a number: {str(value)[:60]!r}")
    # no limit is ever crossed by NaN
    if math.isnan(value):
        return Measured(None, "it is NaN")
    return Measured(float(value), behind=behind)


def _given(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> duckdb.DuckDBPyRelation | None:
    """Return the rows that a rule asks; None if it asks the public relations."""
    if rule.compare is not None:
        return con.from_arrow(comparison(rule.smallest_change).table(rule.compare))
    if rule.what_if is not None:
        try:
            return con.from_arrow(what_if(con, [rule.what_if], "scenario"))
        except UsageError as error:
            raise UsageError(f"{rule.title}: {error}") from error
    if rule.analysis is not None:
        return analyses.run(con, rule.analysis, **dict(rule.params))
    return None


def _scalar(
    con: duckdb.DuckDBPyConnection, rule: Rule, given: duckdb.DuckDBPyRelation | None
) -> list[tuple[object, ...]]:
    assert rule.sql is not None
    if not _is_one_select(con, rule.sql):
        raise UsageError(f"{rule.title}: its SQL has to be one SELECT")
    return _rows_of(con, rule.sql, given).fetchall()


def _rows_of(
    con: duckdb.DuckDBPyConnection, sql: str, given: duckdb.DuckDBPyRelation | None
) -> duckdb.DuckDBPyRelation:
    ask = partial(con.sql, sql) if given is None else partial(given.query, "rows", sql)
    rows = analyses.with_analyses(con, sql, ask)
    assert rows is not None  # it is a SELECT
    return rows


def _counted(
    con: duckdb.DuckDBPyConnection, sql: str, given: duckdb.DuckDBPyRelation | None
) -> Behind | None:
    """Return the rows that a rule in SQL counts, and the first column that it names."""
    if (found := rows_behind(con, sql)) is None:
        return None
    query, column = found
    return _rows_of(con, query, given), column


def _aggregated(rows: duckdb.DuckDBPyRelation, rule: Rule) -> list[tuple[object, ...]]:
    """Return the number of a column. Raises UsageError where it holds none."""
    try:
        return rows.aggregate(AGGREGATES[rule.aggregate].format(f'"{rule.column}"')).fetchall()
    except duckdb.BinderException as error:
        kind = dict(zip(rows.columns, rows.types, strict=True))[str(rule.column)]
        raise UsageError(
            f"{rule.title}: {rule.column} is {kind}, not a number: aggregate = 'count' counts rows"
        ) from error


def _of_column(rows: duckdb.DuckDBPyRelation, column: str) -> Behind:
    return rows, column


def _why_null(rule: Rule, given: duckdb.DuckDBPyRelation | None) -> str:
    """Say why a number is NULL: no rows, none that the rule is about, or none with a value."""
    if given is None:
        return "the query gives NULL"
    if not (count := _count(given)):
        needs = analyses.find(rule.analysis).requirements if rule.analysis else ()
        return "; ".join(["no rows", *(f"{rule.analysis} {need.rstrip('.')}" for need in needs)])
    if rule.column is None:
        return "the query gives NULL"
    if rule.where is not None and not (count := _count(given.filter(rule.where))):
        return "no row is like that"
    rows = "the only row" if count == 1 else f"all {plural(count, 'row')}"
    return f"{rule.column} is NULL in {rows}"


def _count(rows: duckdb.DuckDBPyRelation) -> int:
    return sum(count for (count,) in rows.aggregate("count(*)").fetchall())


def _is_one_select(con: duckdb.DuckDBPyConnection, sql: str) -> bool:
    statements = con.extract_statements(sql)
    try:
        return [statement.type for statement in statements] == [duckdb.StatementType.SELECT]
    except ValueError:  # DuckDB knows kinds that its Python package does not
        return False


def _asked(rule: Rule, rows: duckdb.DuckDBPyRelation | None) -> duckdb.DuckDBPyRelation:
    """Return the rows that a rule is about. Raises UsageError if they lack its column."""
    assert rows is not None
    assert rule.column is not None
    if rule.column not in rows.columns:
        raise UsageError(
            f"{rule.title}: "
            + no_column(str(rule.analysis or rule.compare or "what_if"), rule.column, rows.columns)
        )
    return rows if rule.where is None else rows.filter(rule.where)
