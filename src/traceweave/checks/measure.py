"""From rules to outcomes: ask the runs for the numbers, compare them with the limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, partial
from statistics import fmean
from typing import TypeAlias

import duckdb
import pyarrow as pa

from traceweave import analyses
from traceweave.checks.counted import rows_behind
from traceweave.checks.noise import noise_of
from traceweave.checks.repeats import without_repeats
from traceweave.checks.rows import changed_rows, worst_rows
from traceweave.checks.rules import AGGREGATES, Limit, Rule, no_column
from traceweave.comparison import Comparability, Comparison, can_be_compared, compare_runs
from traceweave.comparison.comparability import COMPARABLE, NOT_COMPARABLE, WITH_CARE
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
    """The mean of the baselines."""
    crossed: bool
    missing: str = ""
    """Why there is no value, or none to compare it with, if so."""
    incomparable: str = ""
    """Why run and baseline are not comparable, if that fails the limit."""
    unchecked: bool = False
    """Whether it needs a baseline and there is none."""
    where: str = ""
    """The rows that a crossed limit is about: their ranks, steps, kernels and values."""
    noise: float | None = None
    """How far from `baseline` one more recording may be, as far as several of them tell."""
    undecided: str = ""
    """Why the comparison that it asks cannot tell, if it cannot: that nothing was found is then no
    news."""

    @property
    def result(self) -> str:
        """'ok', 'crossed', 'not comparable' (which counts as crossed), 'no value', 'skipped' or
        'cannot tell' (which does not).

        Without a value it counts as crossed unless the rule is optional; without a baseline what
        needs one is skipped.
        """
        if self.unchecked:
            return "skipped"
        if self.value is None or (self.limit.needs_baseline and self.baseline is None):
            return "no value"
        if self.incomparable:
            return "not comparable"
        if self.crossed:
            return "crossed"
        return "cannot tell" if self.undecided else "ok"

    @property
    def untold(self) -> bool:
        """Whether the comparison that it asks cannot tell: no failure, and no success."""
        return self.result == "cannot tell"

    @property
    def compares(self) -> bool:
        """Whether it rests on both runs."""
        return self.rule.needs_baseline(self.limit)

    @property
    def skipped(self) -> bool:
        """Whether it says nothing: no value for an optional rule, or no baseline."""
        return self.unchecked or (self.result == "no value" and not self.crossed)

    @property
    def was(self) -> str:
        """The mean of the baselines, with the noise that several tell."""
        text = written(self.baseline, self.rule.unit)
        return text if self.noise is None else f"{text} ± {written(self.noise, self.rule.unit)}"

    @property
    def message(self) -> str:
        """What was found, in a line."""
        if self.unchecked:
            return f"{self.rule.metric}: {self.missing}; limit: {self.limit.kind} {self.limit.text}"
        against = f"not comparable: {self.incomparable}; " if self.incomparable else ""
        found = written(self.value, self.rule.unit)
        if self.limit.needs_baseline:
            found += f", baseline {self.was}"
            if self.value is not None and self.baseline:
                found += f" ({percent(self.value / self.baseline - 1, signed=True)})"
        if self.missing:
            found += f" ({self.missing})"
        limit = f"limit: {self.limit.kind} {self.limit.text}"
        rows = f"; {self.where}" if self.where else ""
        doubt = f"; cannot tell: {self.undecided}" if self.untold else ""
        return f"{against}{self.rule.metric} = {found}; {limit}{rows}{doubt}"


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


@dataclass(frozen=True)
class CheckResult:
    """The outcomes of all rules, in the order of the rules file."""

    outcomes: tuple[Outcome, ...]
    comparability: Comparability | None = None
    """Whether run and baseline can be compared, of several the one that can least; None if no rule
    compares them.
    """
    remarks: tuple[str, ...] = ()
    """What is to be said of the baselines."""

    @property
    def ok(self) -> bool:
        """Whether no limit is crossed, every number known, what is compared comparable, and
        anything was checked at all.
        """
        return not self.nothing_checked and not any(outcome.crossed for outcome in self.outcomes)

    @property
    def nothing_checked(self) -> bool:
        """Whether every limit was skipped: then the run is not vouched for."""
        return all(outcome.skipped for outcome in self.outcomes)

    @property
    def summary(self) -> str:
        """How many limits hold, are crossed, tell nothing and were skipped, in a line."""
        skipped = sum(outcome.skipped for outcome in self.outcomes)
        crossed = sum(outcome.crossed for outcome in self.outcomes)
        untold = [one.rule.name for one in self.outcomes if one.untold]
        held = len(self.outcomes) - skipped - crossed - len(untold)
        names = dict.fromkeys(outcome.rule.name for outcome in self.outcomes if outcome.crossed)
        failed = f"{crossed} failed ({', '.join(names)})" if crossed else "0 failed"
        doubt = f", {len(untold)} cannot tell ({', '.join(untold)})" if untold else ""
        counts = f"{held} ok, {failed}{doubt}, {skipped} skipped"
        nothing = "; nothing was checked, which is a failure" if self.nothing_checked else ""
        return f"{plural(len(self.outcomes), 'limit')}: {counts}{nothing}"

    def table(self) -> pa.Table:
        """Return one row per limit; numbers raw, and as people read them in `found` and `was`."""
        comparability = self.comparability.verdict if self.comparability else None
        rows = [
            {
                "rule": outcome.rule.name,
                "result": outcome.result,
                "value": outcome.value,
                "baseline": outcome.baseline,
                "noise": outcome.noise,
                "found": written(outcome.value, outcome.rule.unit),
                "was": outcome.was,
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
        ("noise", pa.float64()),
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
    baselines: Sequence[duckdb.DuckDBPyConnection] = (),
    accept_differences: bool = False,
) -> CheckResult:
    """Check the run in `con`; a number that is NULL cannot be vouched for and counts as crossed.

    So does a limit that compares runs which are not comparable, unless its rule accepts that or
    `accept_differences` does for all. What needs a baseline is skipped if there is none. Several
    tell the noise that a change has to exceed, and a rule that asks a comparison holds if it does
    with one of them. Raises UsageError if a rule names what is not there, QueryError if its SQL is
    wrong.
    """

    @cache
    def comparison(place: int, smallest_change: float) -> Comparison:
        return compare_runs(baselines[place], con, smallest_change=smallest_change)

    comparing = [rule for rule in rules if any(map(rule.needs_baseline, rule.limits))]
    comparable = [can_be_compared(one, con) for one in baselines] if comparing else []
    reasons = "; ".join(dict.fromkeys(c.reasons for c in comparable if c.reasons))
    baselines, remarks = without_repeats(baselines)
    outcomes = []
    for rule in rules:
        places = range(len(baselines)) if rule.compare else (0,)
        now = [_measured(con, rule, partial(comparison, place)) for place in places]
        of_change = any(limit.needs_baseline for limit in rule.limits)
        asked = baselines if of_change else ()
        before = _before([measure(one, rule, partial(comparison, 0)) for one in asked])
        accepted = accept_differences or rule.accept_differences
        for limit in rule.limits:
            against = "" if accepted or not rule.needs_baseline(limit) else reasons
            reason = _why_skipped(rule, limit, len(baselines), repeated=bool(remarks))
            if reason and not against:
                value = now[0].value if now else None
                outcomes.append(Outcome(rule, limit, value, None, False, reason, unchecked=True))
                continue
            outcomes.append(_outcome(rule, limit, _mildest(limit, now), before, against))
    return CheckResult(tuple(outcomes), min(comparable, key=_can_be, default=None), remarks)


def _measured(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> Measured:
    """Return the number of a rule, and whether it is one of a comparison that cannot tell."""
    found = measure(con, rule, comparison)
    if rule.compare != "step":
        return found
    return replace(found, undecided=comparison(rule.smallest_change).time.undecided)


def _can_be(comparability: Comparability) -> int:
    return (NOT_COMPARABLE, WITH_CARE, COMPARABLE).index(comparability.verdict)


@dataclass(frozen=True)
class _Before:
    """What the baselines say of a number."""

    value: float | None
    """Their mean."""
    noise: float | None
    missing: str
    behind: tuple[Callable[[], Behind | None], ...] = ()
    """The rows of each."""


def _before(measured: Sequence[Measured]) -> _Before:
    values = [one.value for one in measured if one.value is not None]
    if not values:
        return _Before(None, None, measured[0].missing if measured else "")
    behind = tuple(one.behind for one in measured if one.behind is not None)
    return _Before(fmean(values), noise_of(values), "", behind)


def _why_skipped(rule: Rule, limit: Limit, baselines: int, *, repeated: bool) -> str:
    """Say why a limit cannot be checked with so many baselines; '' if it can."""
    if not baselines and rule.needs_baseline(limit):
        return "skipped, there is no baseline to compare with"
    if limit.of_noise and baselines < 2 and repeated:
        return "skipped, the same recording twice tells no noise: give another one"
    if limit.of_noise and baselines < 2:
        return "skipped, one baseline does not tell its noise: give several"
    return ""


def _mildest(limit: Limit, now: Sequence[Measured]) -> Measured:
    """Return of what a rule found, with every baseline, what is nearest to holding."""
    known = [one for one in now if one.value is not None]
    sign = -1 if limit.kind == "min" else 1
    # of two that hold alike, one that can tell
    return (
        min(known, key=lambda one: (sign * (one.value or 0.0), one.undecided)) if known else now[0]
    )


def _outcome(rule: Rule, limit: Limit, now: Measured, before: _Before, against: str) -> Outcome:
    missing = [now.missing] if now.missing else []
    if limit.needs_baseline and before.missing:
        missing.append(f"baseline: {before.missing}")
    if missing:
        against = ""  # there is nothing to compare
    noise = before.noise if limit.needs_baseline else None
    crossed = bool(against) or crosses(
        limit, now.value, before.value, noise or 0.0, optional=rule.optional
    )
    where = _where(limit, now, before) if crossed and not against else ""
    return Outcome(
        rule, limit, now.value, before.value, crossed, "; ".join(missing), against,
        where=where, noise=noise, undecided=now.undecided,
    )  # fmt: skip


def _where(limit: Limit, now: Measured, before: _Before) -> str:
    """Name the rows that a crossed limit is about; of a limit on a change what changed most."""
    if now.behind is None or (found := now.behind()) is None:
        return ""
    rows, column = found
    least = limit.kind in ("min", "max_decrease")
    if limit.needs_baseline:
        then = [was[0] for ask in before.behind if (was := ask()) is not None]
        if changed := changed_rows(rows, then, column, least=least):
            return changed
    return worst_rows(rows, column, least=least)


def crosses(
    limit: Limit,
    value: float | None,
    baseline: float | None,
    noise: float = 0.0,
    *,
    optional: bool = False,
) -> bool:
    """Tell whether a value is beyond its limit; an unknown one is, unless it is `optional`.

    A change has to be larger than its limit and than the `noise`.
    """
    if value is None or (limit.needs_baseline and baseline is None):
        return not optional
    if limit.kind == "max":
        return value > limit.value
    if limit.kind == "min":
        return value < limit.value
    assert baseline is not None
    room = max(limit.value * abs(baseline) if limit.relative else limit.value, noise)
    change = value - baseline
    return change > room if limit.kind == "max_increase" else -change > room


def measure(
    con: duckdb.DuckDBPyConnection, rule: Rule, comparison: Callable[[float], Comparison]
) -> Measured:
    """Return the number that a rule is about; without a value for NULL, and for NaN."""
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
            rows = about.aggregate(AGGREGATES[rule.aggregate].format(f'"{rule.column}"')).fetchall()
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
