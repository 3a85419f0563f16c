"""What a check found: the outcome of each limit, and of all together, in words and as rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from traceweave.checks.rules import Limit, Rule
from traceweave.comparison import Comparability
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


def written(value: float | None, unit: str) -> str:
    """Write a number in the unit that people read."""
    if unit == "ns":
        return duration(value, TABLE)
    if unit == "bytes":
        return size(value, TABLE)
    return percent(value) if unit == "fraction" else number(value, TABLE)
