"""From rules to outcomes: ask the runs for the numbers, compare them with the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

import duckdb
import pyarrow as pa

from traceweave import analyses
from traceweave.checks.rules import AGGREGATES, Limit, Rule, no_column
from traceweave.comparison import Comparison, compare_runs
from traceweave.errors import QueryError, UsageError
from traceweave.store.database import first_line
from traceweave.words import TABLE, duration, number, percent, plural, size


@dataclass(frozen=True)
class Outcome:
    """One limit of one rule, checked."""

    rule: Rule
    limit: Limit
    value: float | None
    baseline: float | None
    crossed: bool
    missing: str = ""
    """Why there is no value, if there is none."""

    @property
    def result(self) -> str:
        """'ok', 'crossed', or 'no value' (which counts as crossed unless the rule is optional)."""
        if self.value is None or (self.limit.needs_baseline and self.baseline is None):
            return "no value"
        return "crossed" if self.crossed else "ok"

    @property
    def skipped(self) -> bool:
        """Whether it says nothing: there is no value, and the rule is optional."""
        return self.result == "no value" and not self.crossed

    @property
    def message(self) -> str:
        """What was found, in a line."""
        found = written(self.value, self.rule.unit)
        if self.limit.needs_baseline:
            found += f", baseline {written(self.baseline, self.rule.unit)}"
            if self.value is not None and self.baseline:
                found += f" ({percent(self.value / self.baseline - 1, signed=True)})"
        if self.missing:
            found += f" ({self.missing})"
        return f"{self.rule.metric} = {found}; limit: {self.limit.kind} {self.limit.text}"


@dataclass(frozen=True)
class Measured:
    """The number that a rule is about, in one run."""

    value: float | None
    missing: str = ""
    """Why it is None."""


@dataclass(frozen=True)
class CheckResult:
    """The outcomes of all rules, in the order of the rules file."""

    outcomes: tuple[Outcome, ...]

    @property
    def ok(self) -> bool:
        """Whether no limit is crossed and every number is known."""
        return not any(outcome.crossed for outcome in self.outcomes)

    def table(self) -> pa.Table:
        """Return one row per limit; numbers raw, and as people read them in `found` and `was`."""
        rows = [
            {
                "rule": outcome.rule.name,
                "result": outcome.result,
                "value": outcome.value,
                "baseline": outcome.baseline,
                "found": written(outcome.value, outcome.rule.unit),
                "was": written(outcome.baseline, outcome.rule.unit),
                "limit": f"{outcome.limit.kind} {outcome.limit.text}",
                "message": outcome.message,
            }
            for outcome in self.outcomes
        ]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)


_SCHEMA = pa.schema(
    [
        ("rule", pa.string()),
        ("result", pa.string()),
        ("value", pa.float64()),
        ("baseline", pa.float64()),
        ("found", pa.string()),
        ("was", pa.string()),
        ("limit", pa.string()),
        ("message", pa.string()),
    ]
)


def check_run(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    *,
    baseline: duckdb.DuckDBPyConnection | None = None,
) -> CheckResult:
    """Check the run in `con`; a number that is NULL cannot be vouched for and counts as crossed.

    Raises UsageError if a rule needs a baseline and there is none or names what is not there,
    QueryError if its SQL is wrong.
    """

    @cache
    def comparison() -> Comparison:
        assert baseline is not None
        return compare_runs(baseline, con)

    outcomes = []
    for rule in rules:
        if rule.needs_baseline and baseline is None:
            raise UsageError(
                f"rule {rule.name!r} compares two runs; name the other one with --baseline"
            )
        now, old = measure(con, rule, comparison), Measured(None)
        if baseline is not None and any(limit.needs_baseline for limit in rule.limits):
            old = measure(baseline, rule, comparison)
        outcomes += [_outcome(rule, limit, now, old) for limit in rule.limits]
    return CheckResult(tuple(outcomes))


def _outcome(rule: Rule, limit: Limit, now: Measured, old: Measured) -> Outcome:
    missing = [now.missing] if now.missing else []
    if limit.needs_baseline and old.missing:
        missing.append(f"baseline: {old.missing}")
    crossed = crosses(limit, now.value, old.value, optional=rule.optional)
    return Outcome(rule, limit, now.value, old.value, crossed, "; ".join(missing))


def crosses(
    limit: Limit, value: float | None, baseline: float | None, *, optional: bool = False
) -> bool:
    """Tell whether a value is beyond its limit; an unknown one is, unless it is `optional`."""
    if value is None or (limit.needs_baseline and baseline is None):
        return not optional
    if limit.kind == "max":
        return value > limit.value
    if limit.kind == "min":
        return value < limit.value
    assert baseline is not None
    room = limit.value * abs(baseline) if limit.relative else limit.value
    change = value - baseline
    return change > room if limit.kind == "max_increase" else -change > room


def measure(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[], Comparison]
) -> Measured:
    """Return the number that a rule is about; without a value for NULL, and for NaN."""
    try:
        given = _given(con, rule, comparison)
        rows = _scalar(con, rule, given) if rule.sql is not None else _aggregated(rule, given)
        if len(rows) == 1 and rows[0] == (None,):
            return Measured(None, _why_null(rule, given))
    except duckdb.Error as error:
        raise QueryError(f"rule {rule.name!r}: {first_line(error)}") from error
    if len(rows) != 1 or len(rows[0]) != 1:
        raise UsageError(
            f"rule {rule.name!r}: its SQL has to give one row with one column; it gives"
            f" {plural(len(rows), 'row')}"
            + (f" with {plural(len(rows[0]), 'column')}" if rows else "")
        )
    value = rows[0][0]
    if not isinstance(value, int | float | Decimal):
        raise UsageError(f"rule {rule.name!r}: {rule.metric} is no number: {str(value)[:60]!r}")
    # no limit is ever crossed by NaN
    return Measured(None, "it is NaN") if math.isnan(value) else Measured(float(value))


def written(value: float | None, unit: str) -> str:
    """Write a number in the unit that people read."""
    if unit == "ns":
        return duration(value, TABLE)
    if unit == "bytes":
        return size(value, TABLE)
    return percent(value) if unit == "fraction" else number(value, TABLE)


def _given(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[], Comparison]
) -> duckdb.DuckDBPyRelation | None:
    """Return the rows that a rule asks; None if it asks the public relations."""
    if rule.compare is not None:
        return con.from_arrow(comparison().table(rule.compare))
    if rule.analysis is not None:
        return analyses.run(con, rule.analysis, **dict(rule.params))
    return None


def _scalar(
    con: duckdb.DuckDBPyConnection, rule: Rule, given: duckdb.DuckDBPyRelation | None
) -> list[tuple[object, ...]]:
    assert rule.sql is not None
    if not _is_one_select(con, rule.sql):
        raise UsageError(f"rule {rule.name!r}: its SQL has to be one SELECT")
    if given is None:
        return con.sql(rule.sql).fetchall()
    rows = given.query("rows", rule.sql)
    assert rows is not None  # it is a SELECT
    return rows.fetchall()


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


def _aggregated(rule: Rule, rows: duckdb.DuckDBPyRelation | None) -> list[tuple[object, ...]]:
    assert rows is not None
    assert rule.column is not None
    if rule.column not in rows.columns:
        raise UsageError(
            f"rule {rule.name!r}: "
            + no_column(str(rule.analysis or rule.compare), rule.column, rows.columns)
        )
    if rule.where is not None:
        rows = rows.filter(rule.where)
    return rows.aggregate(AGGREGATES[rule.aggregate].format(f'"{rule.column}"')).fetchall()
