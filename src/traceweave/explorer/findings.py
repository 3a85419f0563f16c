"""The findings of a run in words, and where on its timeline each shows best."""

from __future__ import annotations

from threading import Lock
from typing import Any

import duckdb

from traceweave.analyses import find
from traceweave.analyses.blocks import block
from traceweave.analyses.catalog import subject_of
from traceweave.analyses.rules import Subject
from traceweave.analyses.runner import answer_batch, run
from traceweave.explorer.asking import Asking
from traceweave.explorer.run import Explored

Answer = dict[str, Any]


class Findings:
    """Made when they are first wanted, and kept."""

    def __init__(self, explored: Explored, database: str) -> None:
        """Take a run, and how a shell names it."""
        self._run = explored
        self._database = database
        self._lock = Lock()  # analyses take memory: one at a time
        self._rows: list[Answer] | None = None

    def rows(self, asking: Asking) -> list[Answer]:
        """Return them, costliest first: what a block says, the ranks, and what they are about."""
        with asking.turn(self._lock):
            if self._rows is None:
                self._rows = asking.compute(_found)
        return [
            {
                **block(row, self._database)._asdict(),
                "ranks": row["ranks"],
                "subject": subject._asdict() if (subject := subject_of(row["rule"])) else None,
            }
            for row in self._rows
        ]

    def place(self, asking: Asking, number: int) -> Answer | None:
        """Return the longest stretch of what a finding is about; None if there is none."""
        self.rows(asking)
        row = self._rows[number] if self._rows and number < len(self._rows) else None
        subject = subject_of(row["rule"]) if row else None
        if row is None or subject is None:
            return None
        ranks = row["ranks"] or []
        if subject.kind != "gaps":
            wanted = {"ranks": ranks, "which": subject.which, "group_id": row["group_id"]}
            found = asking.rows(f"longest_of_{subject.kind}", **wanted)
        else:
            found = self._longest_gap(asking, subject, ranks)
        return found[0] if found else None

    def _longest_gap(self, asking: Asking, subject: Subject, ranks: list[int]) -> list[Answer]:
        with asking.turn(self._lock):
            gap = asking.compute(lambda con: _longest_gap(con, subject.which, ranks))
        return [{**one, "start_ns": one["start_ns"] - self._run.origin_ns} for one in gap]


def _found(con: duckdb.DuckDBPyConnection) -> list[Answer]:
    return run(con, "findings").to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def _longest_gap(con: duckdb.DuckDBPyConnection, cause: str, ranks: list[int]) -> list[Answer]:
    if ranks:  # the gaps of others are not looked for
        gaps = find("gaps")
        whose = f"rank IN ({', '.join(map(str, ranks))})"
        rows = con.from_arrow(answer_batch(con, gaps, gaps.bind({}), whose))
    else:
        rows = run(con, "gaps")
    longest = rows.filter(f"cause = '{cause}'").order("duration_ns DESC, rank, start_ns")
    found = longest.limit(1)
    return found.select("rank, start_ns, duration_ns").to_arrow_table().to_pylist()  # type: ignore[no-any-return]
