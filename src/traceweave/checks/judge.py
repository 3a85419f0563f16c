"""From rules to outcomes: ask the runs for the numbers, compare them with the limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import fmean

import duckdb

from traceweave.checks.baselines import noise_of, without_repeats
from traceweave.checks.measure import Behind, Measured, measure
from traceweave.checks.outcomes import CheckResult, Outcome
from traceweave.checks.rows import changed_rows, worst_rows
from traceweave.checks.rules import Limit, Rule
from traceweave.comparison import Comparability, Comparison, can_be_compared, compare_runs
from traceweave.comparison.comparability import COMPARABLE, NOT_COMPARABLE, WITH_CARE


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
        names = ("the baseline", "the run")
        return compare_runs(baselines[place], con, names=names, smallest_change=smallest_change)

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
