"""Rules of a gate: which number of a run may not be larger, smaller or worse than what.

A rules file is TOML, one [[rule]] per number; docs/compare-and-check.md has the whole format.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from traceweave.analyses import find
from traceweave.comparison import SMALLEST_CHANGE, TABLES
from traceweave.errors import QueryError, UsageError, nearest, suggest
from traceweave.locations import is_elsewhere, shown
from traceweave.quantities import UNITS, read_quantity, unit_of
from traceweave.replay import WHAT_IF_COLUMNS, check_scenario

AGGREGATES = {
    "mean": "avg({})",
    "median": "quantile_disc({}, 0.5)",
    "min": "min({})",
    "max": "max({})",
    "sum": "sum({})",
    "p95": "quantile_disc({}, 0.95)",
    "p99": "quantile_disc({}, 0.99)",
    "count": "count({})",
}
"""How the values of a column become one number, as DuckDB writes it; percentiles are the nearest
rank, as in the analyses."""

LIMITS = ("max", "min", "max_increase", "max_decrease")
"""Limits on the value itself, and on its change against the baseline."""

NOISE = "noise"
"""A change that is limited by no more than what several baselines differ by."""

_COLUMN = ("column", "aggregate", "where")
_ROWS = ("analysis", "compare", "what_if")
_KNOWN = frozenset(
    {"name", "optional", "params", "sql", "accept_differences", "smallest_change"}
    | {*_ROWS, *_COLUMN, *LIMITS}
)


@dataclass(frozen=True)
class Limit:
    """One limit; `value` is in the metric's unit, or a fraction of the baseline."""

    kind: str
    value: float
    text: str
    """As the rules file says it."""
    relative: bool = False
    """Whether `value` is a fraction of the baseline's value."""
    of_noise: bool = False
    """Whether nothing limits the change but the noise that several baselines tell."""

    @property
    def needs_baseline(self) -> bool:
        """Whether it limits a change."""
        return self.kind.endswith("crease")


@dataclass(frozen=True)
class Rule:
    """One number and its limits: a column of some rows put together, or one SQL scalar.

    The rows are those of an analysis, of a table of the comparison with the baseline, or of what-if
    for a scenario. SQL asks them as the relation `rows`, or the public relations.
    """

    name: str
    limits: tuple[Limit, ...]
    unit: str = ""
    """'ns', 'bytes', 'fraction' or '': how the number is written for people."""
    sql: str | None = None
    analysis: str | None = None
    compare: str | None = None
    what_if: str | None = None
    column: str | None = None
    aggregate: str = "mean"
    where: str | None = None
    params: tuple[tuple[str, object], ...] = ()
    optional: bool = False
    """Whether a number that the run does not have is no failure."""
    accept_differences: bool = False
    """Whether runs that are not comparable are compared all the same."""
    smallest_change: float = SMALLEST_CHANGE
    """Share of the step below which a change of it does not count, in a comparison."""
    file: str = ""
    line: int = 1
    """Where it is written: the line of its [[rule]]."""

    @property
    def title(self) -> str:
        """What an error says of where it is."""
        return f"{self.file}: rule {self.name!r}" if self.file else f"rule {self.name!r}"

    def needs_baseline(self, limit: Limit) -> bool:
        """Tell whether a limit cannot be checked on one run alone."""
        return self.compare is not None or limit.needs_baseline

    @property
    def metric(self) -> str:
        """What the number is, in a line."""
        if self.sql is not None:  # what it asks is in the file, as is its name
            return self.name
        rows = self.analysis or self.compare or f"what-if {self.what_if!r}"
        text = f"{self.aggregate} of {rows}.{self.column}"
        return f"{text} where {self.where}" if self.where else text


def read_rules(path: Path) -> tuple[Rule, ...]:
    """Return the rules of a TOML file. Raises UsageError that names the file and the rule."""
    if is_elsewhere(path):
        raise UsageError(f"{shown(path)}: is read on this machine only; copy it here")
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        hint = "; --init writes it" if isinstance(error, FileNotFoundError) else ""
        raise UsageError(f"{path}: cannot be read: {error.strerror}{hint}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is no text, so no rules; --init writes some") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not TOML: {error}") from error
    rules = data.pop("rule", None)
    if data or not isinstance(rules, list) or not rules:
        meant = next(
            (f"; [[{key}]]: did you mean [[rule]]?" for key in data if nearest(key, ["rule"])), ""
        )
        extra = meant or (f"; it has {', '.join(data)} besides" if data else "")
        raise UsageError(f"{path}: a rules file is a list of [[rule]] tables{extra}")
    lines = _lines(text, len(rules))
    found = tuple(
        replace(_rule(path, place, table), file=str(path), line=line)
        for (place, table), line in zip(enumerate(rules, start=1), lines, strict=True)
    )
    names = [rule.name for rule in found]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{path}: two rules are named {name!r}; give each its own name")
    return found


_HEADING = re.compile(r"\s*\[\[\s*rule\s*\]\]")


def _lines(text: str, rules: int) -> list[int]:
    """Return the line of every [[rule]]; 1 for all where they cannot be told by their headings."""
    lines = [n for n, line in enumerate(text.splitlines(), start=1) if _HEADING.match(line)]
    return lines if len(lines) == rules else [1] * rules


def _rule(path: Path, place: int, table: object) -> Rule:
    if not isinstance(table, dict) or not isinstance(name := table.get("name"), str) or not name:
        raise UsageError(f"{path}: rule {place} has no name")
    where = f"{path}: rule {name!r}"
    for key in table:
        if key not in _KNOWN:
            raise UsageError(f"{where}: no such key: {key!r}{_meant(key, _KNOWN)}")
    if ("sql" in table) == any(key in table for key in _COLUMN):
        raise UsageError(f"{where}: give either sql, or analysis and column")
    if sum(key in table for key in _ROWS) > 1:
        raise UsageError(f"{where}: give one of {', '.join(_ROWS)}: a rule has rows of one kind")
    sql = _text(where, table, "sql") if "sql" in table else None
    aggregate = _text(where, table, "aggregate", "mean")
    if aggregate not in AGGREGATES:
        raise UsageError(
            f"{where}: no such aggregate: {aggregate!r}{_meant(aggregate, AGGREGATES)}"
        )
    params = table.get("params", {})
    if not isinstance(params, dict):
        raise UsageError(f'{where}: write params = {{ window = "host" }}')
    compare = _comparison(where, table) if "compare" in table else None
    column = None if sql else _text(where, table, "column")
    what_if = _scenario(where, table, column) if "what_if" in table else None
    has_analysis = "analysis" in table or (sql is None and compare is None and what_if is None)
    analysis = _text(where, table, "analysis") if has_analysis else None
    if analysis is not None:
        _look_up(where, analysis, column, params)
    unit = _unit(where, table)
    return Rule(
        name,
        _limits(where, table, unit, column),
        unit,
        sql,
        analysis=analysis,
        compare=compare,
        what_if=what_if,
        column=column,
        aggregate=aggregate,
        where=_text(where, table, "where") if "where" in table else None,
        params=tuple(params.items()),
        optional=_flag(where, table, "optional"),
        accept_differences=_flag(where, table, "accept_differences"),
        smallest_change=_smallest_change(where, table),
    )


def _look_up(where: str, name: str, column: str | None, params: dict[str, object]) -> None:
    """Refuse what the header of an analysis does not name, before a limit is read in its unit."""
    try:
        analysis = find(name)
        analysis.bind(params)
    except (UsageError, QueryError) as error:
        raise UsageError(f"{where}: {error}") from error
    known = [known.name for known in analysis.columns]
    if column is not None and column not in known:
        raise UsageError(f"{where}: {no_column(name, column, known)}")


def no_column(rows: str, column: str, known: Collection[str]) -> str:
    """Say that rows have no such column: the one that is meant, or else all there are."""
    hint = suggest(column, known) or f"; it has {', '.join(known)}"
    return f"{rows} has no column {column!r}{hint}"


def _comparison(where: str, table: dict[str, Any]) -> str:
    name = _text(where, table, "compare")
    if name not in TABLES:
        raise UsageError(f"{where}: compare has no table {name!r}{_meant(name, TABLES)}")
    for key in ("params", "max_increase", "max_decrease"):
        if key in table:
            raise UsageError(f"{where}: {key} makes no sense for a comparison of both runs")
    return name


def _scenario(where: str, table: dict[str, Any], column: str | None) -> str:
    text = _text(where, table, "what_if")
    try:
        check_scenario(text)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    if "params" in table:
        raise UsageError(f"{where}: params makes no sense for what_if")
    if column is not None and column not in WHAT_IF_COLUMNS:
        raise UsageError(f"{where}: {no_column('what_if', column, WHAT_IF_COLUMNS)}")
    return text


def _flag(where: str, table: dict[str, Any], key: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        raise UsageError(f"{where}: write {key} = true, or leave it out")
    return value


def _smallest_change(where: str, table: dict[str, Any]) -> float:
    """Return what counts as a change of the step, a share of it."""
    if "smallest_change" not in table:
        return SMALLEST_CHANGE
    if "compare" not in table:
        raise UsageError(f"{where}: smallest_change is for rules with compare; use max_increase")
    value, unit = _quantity(where, "smallest_change", table["smallest_change"])
    if unit not in ("", "fraction") or not 0 <= value < 1:
        raise UsageError(f'{where}: smallest_change is a share of the step: write "2 %"')
    return value


def _unit(where: str, table: dict[str, Any]) -> str:
    """Return the unit of the number: that of its column, else of what limits the number itself."""
    column = table.get("column")
    if isinstance(column, str) and table.get("aggregate") != "count":
        return unit_of(column) or (
            "fraction" if any(str(table.get(k, "")).endswith("%") for k in ("max", "min")) else ""
        )
    units = {_quantity(where, key, table[key])[1] for key in ("max", "min") if key in table}
    return next(iter(units)) if len(units) == 1 else ""


def _limits(where: str, table: dict[str, Any], unit: str, column: str | None) -> tuple[Limit, ...]:
    given = {key: value for key in LIMITS if (value := table.get(key)) is not None}
    if not given:
        raise UsageError(f"{where}: sets no limit; available: {', '.join(LIMITS)}")
    return tuple(_limit(where, kind, value, unit, column) for kind, value in given.items())


def _limit(where: str, kind: str, given: object, unit: str, column: str | None) -> Limit:
    if given == NOISE and kind.endswith("crease"):
        return Limit(kind, 0.0, NOISE, of_noise=True)
    value, own = _quantity(where, kind, given)
    relative = kind.endswith("crease") and own == "fraction"
    if own and not relative and own != unit:
        its = f"which is in {unit}" if unit else "which has none"
        number = f"the column {column}, {its}" if column else "the number"
        raise UsageError(f"{where}: {kind} = {given!r} has another unit than {number}")
    if kind.endswith("crease") and value < 0:
        raise UsageError(f"{where}: {kind} is how much it may change; it cannot be negative")
    return Limit(kind, value, str(given), relative)


def _quantity(where: str, key: str, given: object) -> tuple[float, str]:
    """Return a number in base units and its unit, '' without one."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return float(given), ""
    try:
        value, unit = read_quantity(str(given))
    except ValueError as error:
        raise UsageError(
            f"{where}: {key} = {given!r} is not a quantity; write a number, or one with a unit of"
            f" {', '.join(UNITS)}"
        ) from error
    return float(value), unit


def _text(where: str, table: dict[str, Any], key: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {key} is missing or no text")
    return value


def _meant(name: str, known: Collection[str]) -> str:
    """Say which of the known names is near, or else all of them."""
    return suggest(name, known) or f"; available: {', '.join(sorted(known))}"
