"""From rules to outcomes: ask the runs for the numbers, compare them with the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial

import duckdb
import pyarrow as pa

from traceweave import analyses
from traceweave.checks.rows import worst_rows
from traceweave.checks.rules import AGGREGATES, Limit, Rule, no_column
from traceweave.comparison import Comparability, Comparison, can_be_compared, compare_runs
from traceweave.errors import QueryError, UsageError
from traceweave.replay import what_if
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
    """Why there is no value, or none to compare it with, if so."""
    incomparable: str = ""
    """Why run and baseline are not comparable, if that fails the limit."""
    unchecked: bool = False
    """Whether it needs a baseline and there is none."""
    where: str = ""
    """The rows that a crossed limit is about: their ranks, steps, kernels and values."""

    @property
    def result(self) -> str:
        """'ok', 'crossed', 'not comparable' (which counts as crossed), 'no value' or 'skipped'.

        Without a value it counts as crossed unless the rule is optional; without a baseline what
        needs one is skipped.
        """
        if self.unchecked:
            return "skipped"
        if self.value is None or (self.limit.needs_baseline and self.baseline is None):
            return "no value"
        if self.incomparable:
            return "not comparable"
        return "crossed" if self.crossed else "ok"

    @property
    def compares(self) -> bool:
        """Whether it rests on both runs."""
        return self.rule.needs_baseline(self.limit)

    @property
    def skipped(self) -> bool:
        """Whether it says nothing: no value for an optional rule, or no baseline."""
        return self.unchecked or (self.result == "no value" and not self.crossed)

    @property
    def message(self) -> str:
        """What was found, in a line."""
        if self.unchecked:
            return f"{self.rule.metric}: {self.missing}; limit: {self.limit.kind} {self.limit.text}"
        against = f"not comparable: {self.incomparable}; " if self.incomparable else ""
        found = written(self.value, self.rule.unit)
        if self.limit.needs_baseline:
            found += f", baseline {written(self.baseline, self.rule.unit)}"
            if self.value is not None and self.baseline:
                found += f" ({percent(self.value / self.baseline - 1, signed=True)})"
        if self.missing:
            found += f" ({self.missing})"
        limit = f"limit: {self.limit.kind} {self.limit.text}"
        rows = f"; {self.where}" if self.where else ""
        return f"{against}{self.rule.metric} = {found}; {limit}{rows}"


@dataclass(frozen=True)
class Measured:
    """The number that a rule is about, in one run."""

    value: float | None
    missing: str = ""
    """Why it is None."""
    rows: duckdb.DuckDBPyRelation | None = None
    """The rows that it is made of, where it is one of a column."""


@dataclass(frozen=True)
class CheckResult:
    """The outcomes of all rules, in the order of the rules file."""

    outcomes: tuple[Outcome, ...]
    comparability: Comparability | None = None
    """Whether run and baseline can be compared; None if no rule compares them."""

    @property
    def ok(self) -> bool:
        """Whether no limit is crossed, every number known, and what is compared comparable."""
        return not any(outcome.crossed for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """How many limits hold, are crossed and were skipped, in a line."""
        skipped = sum(outcome.skipped for outcome in self.outcomes)
        crossed = sum(outcome.crossed for outcome in self.outcomes)
        held = len(self.outcomes) - skipped - crossed
        names = dict.fromkeys(outcome.rule.name for outcome in self.outcomes if outcome.crossed)
        failed = f"{crossed} failed ({', '.join(names)})" if crossed else "0 failed"
        return f"{plural(len(self.outcomes), 'limit')}: {held} ok, {failed}, {skipped} skipped"

    def table(self) -> pa.Table:
        """Return one row per limit; numbers raw, and as people read them in `found` and `was`."""
        comparability = self.comparability.verdict if self.comparability else None
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
                "comparability": comparability if outcome.compares else None,
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
        ("comparability", pa.string()),
    ]
)


def check_run(
    con: duckdb.DuckDBPyConnection,
    rules: Sequence[Rule],
    *,
    baseline: duckdb.DuckDBPyConnection | None = None,
    accept_differences: bool = False,
) -> CheckResult:
    """Check the run in `con`; a number that is NULL cannot be vouched for and counts as crossed.

    So does a limit that compares runs which are not comparable, unless its rule accepts that or
    `accept_differences` does for all. What needs a baseline is skipped if there is none. Raises
    UsageError if a rule names what is not there, QueryError if its SQL is wrong.
    """

    @cache
    def comparison(smallest_change: float) -> Comparison:
        assert baseline is not None
        return compare_runs(baseline, con, smallest_change=smallest_change)

    comparing = [rule for rule in rules if any(map(rule.needs_baseline, rule.limits))]
    comparability = can_be_compared(baseline, con) if baseline and comparing else None
    reasons = comparability.reasons if comparability and not accept_differences else ""
    outcomes = []
    for rule in rules:
        if baseline is None and rule.compare is not None:
            outcomes += [_unchecked(rule, limit) for limit in rule.limits]
            continue
        now, old = measure(con, rule, comparison), Measured(None)
        if baseline is not None and any(limit.needs_baseline for limit in rule.limits):
            old = measure(baseline, rule, comparison)
        against = "" if rule.accept_differences else reasons
        outcomes += [
            _unchecked(rule, limit, now.value)
            if baseline is None and rule.needs_baseline(limit)
            else _outcome(rule, limit, now, old, against if rule.needs_baseline(limit) else "")
            for limit in rule.limits
        ]
    return CheckResult(tuple(outcomes), comparability)


def _unchecked(rule: Rule, limit: Limit, value: float | None = None) -> Outcome:
    """Return the outcome of a limit that needs a baseline, where there is none."""
    missing = "skipped, there is no baseline to compare with"
    return Outcome(rule, limit, value, None, False, missing, unchecked=True)


def _outcome(rule: Rule, limit: Limit, now: Measured, old: Measured, against: str) -> Outcome:
    missing = [now.missing] if now.missing else []
    if limit.needs_baseline and old.missing:
        missing.append(f"baseline: {old.missing}")
    if missing:
        against = ""  # there is nothing to compare
    crossed = crosses(limit, now.value, old.value, optional=rule.optional) or bool(against)
    where = ""
    if crossed and not against and now.rows is not None and rule.column is not None:
        where = worst_rows(now.rows, rule.column, least=limit.kind in ("min", "max_decrease"))
    return Outcome(
        rule, limit, now.value, old.value, crossed, "; ".join(missing), against, where=where
    )


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
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> Measured:
    """Return the number that a rule is about; without a value for NULL, and for NaN."""
    try:
        given = _given(con, rule, comparison)
        about = None
        if rule.sql is not None:
            rows = _scalar(con, rule, given)
        else:
            about = _asked(rule, given)
            rows = about.aggregate(AGGREGATES[rule.aggregate].format(f'"{rule.column}"')).fetchall()
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
        raise UsageError(f"rule {rule.name!r}: {rule.metric} is not a number: {str(value)[:60]!r}")
    # no limit is ever crossed by NaN
    if math.isnan(value):
        return Measured(None, "it is NaN")
    return Measured(float(value), rows=about)


def written(value: float | None, unit: str) -> str:
    """Write a number in the unit that people read."""
    if unit == "ns":
        return duration(value, TABLE)
    if unit == "bytes":
        return size(value, TABLE)
    return percent(value) if unit == "fraction" else number(value, TABLE)


def _given(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> duckdb.DuckDBPyRelation | None:
    """Return the rows that a rule asks; None if it asks the public relations."""
    if rule.compare is not None:
        return con.from_arrow(comparison(rule.smallest_change).table(rule.compare))
    if rule.what_if is not None:
        return con.from_arrow(what_if(con, [rule.what_if], "scenario"))
    if rule.analysis is not None:
        return analyses.run(con, rule.analysis, **dict(rule.params))
    return None


def _scalar(
    con: duckdb.DuckDBPyConnection, rule: Rule, given: duckdb.DuckDBPyRelation | None
) -> list[tuple[object, ...]]:
    assert rule.sql is not None
    if not _is_one_select(con, rule.sql):
        raise UsageError(f"rule {rule.name!r}: its SQL has to be one SELECT")
    ask = partial(con.sql, rule.sql) if given is None else partial(given.query, "rows", rule.sql)
    rows = analyses.with_analyses(con, rule.sql, ask)
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


def _asked(rule: Rule, rows: duckdb.DuckDBPyRelation | None) -> duckdb.DuckDBPyRelation:
    """Return the rows that a rule is about. Raises UsageError if they lack its column."""
    assert rows is not None
    assert rule.column is not None
    if rule.column not in rows.columns:
        raise UsageError(
            f"rule {rule.name!r}: "
            + no_column(str(rule.analysis or rule.compare or "what_if"), rule.column, rows.columns)
        )
    return rows if rule.where is None else rows.filter(rule.where)
