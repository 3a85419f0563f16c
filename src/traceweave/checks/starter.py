"""Starter rules: limits that a run holds today, with room for what it differs by from itself."""

from __future__ import annotations

import json
from typing import NoReturn

import duckdb

from traceweave.checks.measure import measure
from traceweave.checks.rules import Rule
from traceweave.errors import UsageError

ROOM = 1.2
"""Limits are this many times what the run has."""

_HEAD = """\
# Limits on a training run: traceweave check run.duckdb --rules FILE --baseline base.duckdb
# Written from one run, with a fifth of room: tighten what is steady, delete what does not matter.
# docs/compare-and-check.md has the format. Without --baseline, the last rule is skipped.
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

_RULES = (
    Rule("step time", (), "ns", analysis="steps", column="length_ns", aggregate="median"),
    Rule("exposed waiting and transfer", (), "ns", analysis="breakdown", column="exposed_comm_ns"),
    Rule("GPU idle time", (), "ns", analysis="breakdown", column="idle_ns"),
    Rule("peak memory", (), "bytes", analysis="memory", column="peak_allocated_bytes",
         aggregate="max"),
    Rule("events lost at ingest", (), "",
         sql="SELECT coalesce(sum(events_skipped), 0) FROM sources"),
)  # fmt: skip


def starter_rules(con: duckdb.DuckDBPyConnection) -> str:
    """Return a rules file that the run in `con` holds: what it has no number for is left out."""

    def no_comparison(_: float) -> NoReturn:
        raise UsageError("starter rules compare nothing")

    parts = [_HEAD]
    for rule in _RULES:
        value = measure(con, rule, no_comparison).value
        if value is not None:
            parts.append(_written(rule, value))
    return "\n".join(parts) + _LAST


def _written(rule: Rule, value: float) -> str:
    keys = {
        "name": rule.name,
        "analysis": rule.analysis,
        "column": rule.column,
        "aggregate": rule.aggregate if rule.column else None,
        "sql": rule.sql,
        "max": _limit(value * ROOM, rule.unit),
    }
    # what JSON writes of text and numbers is TOML too
    lines = [f"{key} = {json.dumps(given)}" for key, given in keys.items() if given is not None]
    return "\n".join(["[[rule]]", *lines, ""])


def _limit(value: float, unit: str) -> str | int:
    """Return a limit that is not below `value`, in the unit that people read."""
    units = {"ns": (("ms", 1e6), ("us", 1e3), ("ns", 1)), "bytes": (("GB", 1e9), ("MB", 1e6))}
    for name, factor in units.get(unit, ()):
        if value >= factor:
            return f"{value / factor + 0.005:.2f} {name}"
    return int(value)
