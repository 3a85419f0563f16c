"""Where on the timeline findings show best: the longest stretch of what each is about.

What that is its column `shows` says: a kind of stretch, and selectors in the language of scenarios;
where it has none, those of the finding's own scenario, as far as they select such stretches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb

from traceweave.analyses import find, shared_rows
from traceweave.analyses.rules import Subject
from traceweave.analyses.runner import answer_batch, run
from traceweave.explorer.asking import named, text
from traceweave.replay.scenario import Scenario, parse, selection
from traceweave.replay.selections import ops_of

Answer = dict[str, Any]

_KINDS = {"compute": "compute", "memory": "copy"}
_OF_OPS = ("ops", "transfers", "waits")
_EVERYTHING = Scenario("")


class Places:
    """The places of the findings of a run, sought on one connection."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        """Take a connection of the explorer."""
        self._con = con
        self._known: set[str] = set()
        found = con.execute("SELECT DISTINCT op FROM collectives").fetchall()
        self._comm_ops = frozenset(op for (op,) in found)

    def place(self, subject: Subject, finding: Answer) -> Answer | None:
        """Return rank, start_ns and duration_ns of the longest stretch; None: there is none.

        Of a gap it has `step` in place of when it starts: `gap_at` finds that. Raises UsageError
        for selectors that make no sense.
        """
        kind = _KINDS.get(subject.which, "transfer") if subject.kind in _OF_OPS else None
        parts = self._parts(subject, kind, finding["scenario"])
        found = [self._longest(subject, part, finding) for part in parts]
        return max(filter(None, found), key=lambda one: one.pop("measure_ns"), default=None)

    def _parts(self, subject: Subject, kind: str | None, scenario: str | None) -> list[Scenario]:
        """Return what to choose from; a scenario about other work says only in which steps."""
        if subject.selectors:
            parts = subject.selectors.split(";")
            said = [selection(part.strip(), self._comm_ops) for part in parts]
        else:
            said = list(parse(scenario, self._comm_ops)) if scenario else [_EVERYTHING]
            said = [
                part if kind in part.kinds else replace(_EVERYTHING, steps=part.steps)
                for part in said
            ]
        return [replace(part, kinds=frozenset({kind} if kind else ())) for part in said]

    def _longest(self, subject: Subject, part: Scenario, finding: Answer) -> Answer | None:
        """Return the longest stretch of a part of what a finding is about."""
        ranks = finding["ranks"] or sorted(part.ranks or [])
        values: Answer = {"ranks": ranks, "steps": sorted(part.steps or [])}
        values |= {"which": subject.which, "group_id": finding["group_id"]}
        sql = text(f"longest_of_{subject.kind}")
        if subject.kind == "gaps":
            self._has("idle", lambda: run(self._con, "idle_causes"))
        if subject.kind in ("transfers", "waits"):
            self._has("calls", lambda: shared_rows(self._con, "exposed_calls"))
            part = replace(part, ranks=None, steps=None)  # of calls
        if subject.kind in _OF_OPS:
            selected, prepared = ops_of(part, self._comm_ops)
            sql, values = f"WITH selected AS ({selected}) {sql}", {**values, **prepared}
        found = self._con.sql(sql, params=named(sql, values)).to_arrow_table().to_pylist()
        return found[0] if found else None

    def _has(self, name: str, rows: Callable[[], duckdb.DuckDBPyRelation]) -> None:
        """Have the connection know rows by a name."""
        if name not in self._known:
            self._con.register(name, rows().to_arrow_table())
            self._known.add(name)


def gap_at(con: duckdb.DuckDBPyConnection, cause: str, place: Answer) -> Answer | None:
    """Return the longest gap of a cause on the rank and in the step of a place, on the common
    clock; only the gaps of that rank are looked for.
    """
    gaps = find("gaps")
    whose = f"rank = {place['rank']}"
    rows = con.from_arrow(answer_batch(con, gaps, gaps.bind({}), whose))
    step = "IS NULL" if place["step"] is None else f"= {place['step']}"
    longest = rows.filter(f"cause = '{cause}' AND step {step}").order("duration_ns DESC, start_ns")
    found = longest.limit(1).select("rank, start_ns, duration_ns").to_arrow_table().to_pylist()
    return found[0] if found else None
