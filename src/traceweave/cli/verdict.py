"""What `ingest` says of a run at its end, and keeps in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from traceweave import api, words
from traceweave.cli.blocks import block_lines, named
from traceweave.cli.colour import painter
from traceweave.cli.layout import Paint
from traceweave.cli.output import note, page_width
from traceweave.cli.progress import waiting
from traceweave.errors import TraceweaveError
from traceweave.locations import without_secrets
from traceweave.resources import what_ran_out
from traceweave.streams import tell

MOST = 3
"""Findings that are said: that the job stands still, and the most severe."""

_INDENT = "  "
"""Before what is said of the first steps alone."""


def say_verdict(database: Path, *, quiet: bool) -> None:
    """Keep the answers of a run in it; say how long a step takes and what costs most of it, each
    with the command that goes on, or what is in the way.
    """
    with nullcontext() if quiet else waiting("working out the verdict"):
        kept = keep_verdict(database)
    if kept and not quiet:
        print_verdict(database)


def keep_verdict(database: Path) -> bool:
    """Keep the answers of a run in it and tell whether that could be done; if not, say why.

    The run is loaded whatever becomes of them: answers take memory that reading it did not.
    """
    try:
        api.keep_answers(database)
    except TraceweaveError as error:
        ran_out = what_ran_out(error.__cause__)
        note(f"no verdict: {f'{ran_out}; the run is loaded without it' if ran_out else error}")
        return False
    return True


def print_verdict(database: Path) -> None:
    """Say how long a step takes and what costs most of it, each with the command that goes on."""
    health, findings = _rows(database)
    for line in verdict_lines(health, findings, named(database)):
        tell(without_secrets(line))


def first_look(
    target: Path,
    say: Callable[[str], None],
    paint: Paint,
    steps: Sequence[int],
    database: Path,
) -> None:
    """Say of a run that will be in `target` what its first steps show, alone in `database`."""
    health, findings = _rows(database)
    say(f"first look, at {words.named('step', steps)} alone, before the rest is read:")
    width = page_width(sys.stderr) - len(_INDENT)
    for line in _costliest(health, _costly(findings), named(target), width, paint):
        say(_INDENT + without_secrets(line))


Rows = Sequence[Mapping[str, Any]]


def _rows(database: Path) -> tuple[Rows, Rows]:
    """Return the rows of health and of findings."""
    with api.open(database, frames="arrow") as run:
        return run.health().to_pylist(), run.findings().to_pylist()


def verdict_lines(health: Rows, findings: Rows, database: str) -> Iterator[str]:
    """Yield what is said of a run with these rows of health and findings."""
    costly = _costly(findings)
    yield from _costliest(health, costly, database, page_width(sys.stderr), painter(sys.stderr))
    rest = len(findings) - len(costly)
    if rest or not costly:
        others = words.plural(rest, "more finding" if costly else "other finding")
        yield f"{others}:" if costly else f"no finding costs time, {others}:"
        yield f"  traceweave analyze findings {database}"


def _costly(findings: Rows) -> Rows:
    """Return what is said; a job that stands still costs no time of a step, and comes first. What
    others hide may cost none alone."""
    return [
        row
        for row in findings
        if row["cost_ns"] or row["on_top_ns"] or row["severity"] == "critical"
    ][:MOST]


def _costliest(
    health: Rows, costly: Rows, database: str, width: int, paint: Paint
) -> Iterator[str]:
    for row in health:
        if row["answer"] == "step time" and row["value"] is not None:
            yield f"step time: {words.duration(row['value'] * 1e6)}, {row['verdict']}"
    for row in costly:
        yield from block_lines(row, database, width, paint)
