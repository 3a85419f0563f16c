"""The findings of a run in words, and where on its timeline each shows best."""

from __future__ import annotations

from threading import Lock
from typing import Any

import duckdb

from traceweave.analyses.blocks import block
from traceweave.analyses.rules import Subject, subject_said
from traceweave.analyses.runner import run
from traceweave.errors import UsageError
from traceweave.explorer.asking import Asking
from traceweave.explorer.places import Places, gap_at
from traceweave.explorer.run import Explored

Answer = dict[str, Any]

_Shown = tuple[Subject | None, Answer | None]
"""What a finding is about, and where that shows best; neither where there is nothing to be seen."""


class Findings:
    """Made when they are first wanted, and kept."""

    def __init__(self, explored: Explored, database: str) -> None:
        """Take a run, and how a shell names it."""
        self._run = explored
        self._database = database
        self._lock = Lock()  # analyses take memory: one at a time
        self._rows: list[Answer] | None = None
        self._places: list[_Shown] = []

    def rows(self, asking: Asking) -> list[Answer]:
        """Return them, most severe first: what a block says, the ranks, what is to be seen."""
        with asking.turn(self._lock):
            if self._rows is None:
                rows = asking.compute(_found)
                self._places = asking.compute(lambda con: _shown(con, rows))
                self._rows = rows
        return [
            {
                **block(row, self._database)._asdict(),
                "ranks": row["ranks"],
                "subject": {"kind": shown.kind, "which": shown.which} if shown else None,
            }
            for row, (shown, _) in zip(self._rows, self._places, strict=True)
        ]

    def place(self, asking: Asking, number: int) -> Answer | None:
        """Return the longest stretch of what a finding is about; None if there is none."""
        self.rows(asking)
        subject, place = self._places[number] if number < len(self._places) else (None, None)
        if subject is None or place is None or subject.kind != "gaps":
            return place
        with asking.turn(self._lock):
            gap = asking.compute(lambda con: gap_at(con, subject.which, place))
        return gap and {**gap, "start_ns": gap["start_ns"] - self._run.origin_ns}


def _found(con: duckdb.DuckDBPyConnection) -> list[Answer]:
    return run(con, "findings").to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def _shown(con: duckdb.DuckDBPyConnection, rows: list[Answer]) -> list[_Shown]:
    places = Places(con)
    return [_shown_of(places, row) for row in rows]


def _shown_of(places: Places, row: Answer) -> _Shown:
    try:
        subject = subject_said(row["shows"])
        place = places.place(subject, row) if subject else None
    except (ValueError, UsageError):  # a rule of one's own says it wrongly
        return None, None
    return (subject, place) if place else (None, None)
