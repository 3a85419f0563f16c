"""What `ingest` says of a run at its end, and keeps in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from traceweave import api, words
from traceweave.cli.output import note
from traceweave.errors import TraceweaveError
from traceweave.ingestion.load import Progress
from traceweave.locations import shown
from traceweave.resources import what_ran_out

MOST = 3
"""Findings that are said, the costliest."""


def keep_verdict(database: Path, progress: Progress | None) -> str | None:
    """Keep the answers of a run in it; return what was in the way, None if nothing was.

    The run is loaded whatever becomes of them: answers take memory that reading it did not.
    """
    if progress is not None:
        progress.stage("working out the verdict")
    try:
        api.keep_answers(database)
    except TraceweaveError as error:
        ran_out = what_ran_out(error.__cause__)
        return f"{ran_out}; the run is loaded without it" if ran_out else str(error)
    return None


def print_verdict(database: Path) -> None:
    """Say how long a step takes and what costs most of it, each with the command that goes on."""
    with api.open(database, frames="arrow") as run:
        health = run.health().to_pylist()
        findings = run.findings().to_pylist()
    for text, command in _lines(health, findings, shlex.quote(str(shown(database)))):
        note(text, wrapped=True)
        if command:
            note(command, indent="  ")


def _lines(
    health: list[Mapping[str, Any]], findings: list[Mapping[str, Any]], database: str
) -> Iterator[tuple[str, str]]:
    """Yield what is said, and the command that shows more of it."""
    for row in health:
        if row["answer"] == "step time" and row["value"] is not None:
            yield f"step time: {words.duration(row['value'] * 1e6)}, {row['verdict']}", ""
    costly = [row for row in findings if row["cost_ns"]]
    for row in costly[:MOST]:
        cost = words.duration(row["cost_ns"])
        yield f"{row['severity']}: {cost} per step: {row['evidence']}", _next(row, database)
    rest = len(findings) - len(costly[:MOST])
    if rest or not costly:
        yield (
            f"{words.plural(rest, 'more finding')}:" if costly else "no finding costs time:",
            f"traceweave analyze findings {database}",
        )


def _next(row: Mapping[str, Any], database: str) -> str:
    if row["scenario"]:
        return f"traceweave what-if {database} {shlex.quote(row['scenario'])}"
    return f"traceweave analyze {row['proof']} {database}"
