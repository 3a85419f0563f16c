"""What `ingest` says of a run at its end, and keeps in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from traceweave import api, words
from traceweave.cli.blocks import block_lines, named
from traceweave.cli.colour import painter
from traceweave.cli.output import note, page_width
from traceweave.cli.progress import waiting
from traceweave.errors import TraceweaveError
from traceweave.locations import without_secrets
from traceweave.resources import what_ran_out
from traceweave.streams import tell

MOST = 3
"""Findings that are said: that the job stands still, and the costliest."""


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
    with api.open(database, frames="arrow") as run:
        health = run.health().to_pylist()
        findings = run.findings().to_pylist()
    for line in verdict_lines(health, findings, named(database)):
        tell(without_secrets(line))


def verdict_lines(
    health: list[Mapping[str, Any]], findings: list[Mapping[str, Any]], database: str
) -> Iterator[str]:
    """Yield what is said of a run with these rows of health and findings."""
    for row in health:
        if row["answer"] == "step time" and row["value"] is not None:
            yield f"step time: {words.duration(row['value'] * 1e6)}, {row['verdict']}"
    # a job that stands still costs no time of a step, and comes first
    costly = [row for row in findings if row["cost_ns"] or row["severity"] == "critical"]
    for row in costly[:MOST]:
        yield from block_lines(row, database, page_width(sys.stderr), painter(sys.stderr))
    rest = len(findings) - len(costly[:MOST])
    if rest or not costly:
        others = words.plural(rest, "more finding" if costly else "other finding")
        yield f"{others}:" if costly else f"no finding costs time, {others}:"
        yield f"  traceweave analyze findings {database}"
