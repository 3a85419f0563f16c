"""Starter rules: limits that a run holds today, with room for what it differs by from itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn

import duckdb

from traceweave.checks.measure import measure
from traceweave.checks.rules import Rule
from traceweave.errors import UsageError

ROOM = 1.2
"""Times and sizes are limited to this many times what the run has."""

_HEAD = """\
# Limits on a training run: traceweave check run.duckdb --rules FILE --baseline base.duckdb
# Written from one run: times and memory with a fifth of room. Tighten what is steady, delete what
# does not matter; docs/compare-and-check.md has the format. Without --baseline, what compares with
# it is skipped.
"""

_LAST = """
[[rule]]
name = "steps are not significantly slower"
compare = "step"
sql = \"\"\"
SELECT coalesce(max(relative), 0) FROM rows
WHERE sample = 'mean of ranks' AND verdict = 'slower'\"\"\"
max = "2 %"
"""

Limited = Callable[[float, str], dict[str, str | int]]
"""Returns the limits of a number with a unit."""


def _with_room(value: float, unit: str) -> dict[str, str | int]:
    return {"max": _limit(value * ROOM, unit)}


def _no_more(value: float, _: str) -> dict[str, str | int]:
    return {"max": int(value)}


def _no_fewer(value: float, _: str) -> dict[str, str | int]:
    return {"min": int(value)}


def _like_before(_: float, __: str) -> dict[str, str | int]:
    # in the corpus of the tests, the slowest rank's kernels are at the most 0.4% slower than usual
    return {"max_increase": "3 %"}


_RULES: tuple[tuple[Rule, Limited], ...] = (
    (Rule("step time", (), "ns", analysis="steps", column="length_ns", aggregate="mean"),
     _with_room),
    (Rule("exposed waiting and transfer", (), "ns", analysis="breakdown", column="exposed_comm_ns"),
     _with_room),
    (Rule("idle time", (), "ns", analysis="breakdown", column="idle_ns"), _with_room),
    (Rule("peak memory", (), "bytes", analysis="memory", column="peak_allocated_bytes",
          aggregate="max"), _with_room),
    (Rule("ranks recorded", (), sql="SELECT count(*) FROM ranks"), _no_fewer),
    # a slow GPU is one to replace, whether or not this run would gain by it
    (Rule("ranks with slow kernels", (), analysis="findings", params=(("min_share", 0),),
          sql="SELECT count(*) FROM rows WHERE rule = 'slow_kernels'"), _no_more),
    (Rule("slowest rank's kernels beside the usual", (), analysis="kernel_ranks",
          params=(("kernels", 20),),
          sql="SELECT max(ratio) FROM"
              " (SELECT rank, quantile_disc(ratio, 0.5) AS ratio FROM rows GROUP BY rank)"),
     _like_before),
    (Rule("records that are not fit to judge", (), sql="SELECT count(*) FROM recording"), _no_more),
    (Rule("events lost at ingest", (), sql="SELECT coalesce(sum(events_skipped), 0) FROM sources"),
     _no_more),
)  # fmt: skip
"""Numbers and what limits them."""


def starter_rules(con: duckdb.DuckDBPyConnection) -> str:
    """Return a rules file that the run in `con` holds: what it has no number for is left out."""

    def no_comparison(_: float) -> NoReturn:
        raise UsageError("starter rules compare nothing")

    parts = [_HEAD]
    for rule, limited in _RULES:
        value = measure(con, rule, no_comparison).value
        if value is not None:
            parts.append(_written(rule, limited(value, rule.unit)))
    return "\n".join(parts) + _LAST


def _written(rule: Rule, limits: dict[str, str | int]) -> str:
    keys = {
        "name": rule.name,
        "analysis": rule.analysis,
        "column": rule.column,
        "aggregate": rule.aggregate if rule.column else None,
        "sql": rule.sql,
        **limits,
    }
    # what JSON writes of text and numbers is TOML too
    lines = [f"{key} = {json.dumps(given)}" for key, given in keys.items() if given is not None]
    if rule.params:
        params = ", ".join(f"{name} = {json.dumps(value)}" for name, value in rule.params)
        lines.insert(2, f"params = {{ {params} }}")
    return "\n".join(["[[rule]]", *lines, ""])


def _limit(value: float, unit: str) -> str | int:
    """Return a limit that is not below `value`, in the unit that people read."""
    units = {"ns": (("ms", 1e6), ("us", 1e3), ("ns", 1)), "bytes": (("GB", 1e9), ("MB", 1e6))}
    for name, factor in units.get(unit, ()):
        if value >= factor:
            return f"{value / factor + 0.005:.2f} {name}"
    return int(value)
