"""What fixing it would be worth: from the step as measured to what is left of it, fix by fix."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from traceweave.report.columns import rows_table
from traceweave.report.page import Bar, Column, Origin, Section, Table
from traceweave.report.query import Row, analysis_rows
from traceweave.report.sections.findings import Findings, finding_id
from traceweave.words import duration, percent

_WHAT_IF = "traceweave what-if run.duckdb"


@dataclass(frozen=True)
class Worth:
    """Rows of the analysis `fixes`, and what to switch on when recording, by `replay_quality`."""

    rows: list[Row]
    advice: tuple[str, ...]

    @property
    def measured(self) -> Row | None:
        """The run as it is; None where nothing was replayed."""
        first = self.rows[0] if self.rows else None
        return first if first and first["step_ns"] else None


def load_worth(con: duckdb.DuckDBPyConnection) -> Worth:
    """Ask what the findings are worth, and how far to trust it."""
    rows = analysis_rows(con, "fixes")
    replayed = any(row["step_ns"] for row in rows)
    notes = [row["note"] for row in analysis_rows(con, "replay_quality")] if replayed else []
    # ranks that lack different things have some of their advice in common
    advice = dict.fromkeys(part for note in notes if note for part in note.split("; "))
    return Worth(rows, tuple(advice))


def worth_section(worth: Worth, findings: Findings) -> Section:
    """Lay out the first n fixes as bars that get shorter, and as a table."""
    return Section(
        anchor="worth",
        title="What fixing it would be worth",
        lead=(
            "The run replayed with its findings fixed, the best first, each together with those"
            " before it, and last what takes all of a kind away: gains do not add."
        ),
        notes=tuple(_notes(worth)) if worth.measured else (),
        bars=tuple(_bars(worth, findings)),
        tables=(_table(worth),) if worth.measured else (),
        origins=(
            Origin("Fixes", "traceweave analyze fixes run.duckdb"),
            *(Origin("All of them at once", command) for command in _command(worth.rows)),
        ),
        empty="" if worth.measured else _nothing(worth),
    )


def _nothing(worth: Worth) -> str:
    if not worth.rows:
        return "No finding says what its fix would be for a replay."
    return f"Costs are bounds: {worth.rows[0]['note']}."


def _notes(worth: Worth) -> Iterator[str]:
    first, last = worth.rows[0], worth.rows[-1]
    if last["n"]:
        yield (
            f"With all of them a step takes {duration(last['step_ns'])} in place of"
            f" {duration(first['step_ns'])}; then most of its critical path is"
            f" {last['bottleneck']}."
        )
    else:
        yield "No finding that can be replayed makes the step shorter when it alone is fixed."
    if first["note"]:
        yield f"To be read with care: {first['note']}."
    if worth.advice:
        yield f"What this replay lacks: {'; '.join(worth.advice)}."


def _bars(worth: Worth, findings: Findings) -> Iterator[Bar]:
    if worth.measured is None:
        return
    whole = worth.measured["step_ns"]
    for row in worth.rows:
        gain = row["gain_ns"] or 0
        yield Bar(
            label=_label(row),
            anchor=_anchor(row, findings),
            left=row["step_ns"] / whole,
            gained=max(gain, 0) / whole,
            text=duration(row["step_ns"])
            + (
                f", {duration(-gain, signed=True)} ({percent(-gain / whole, signed=True)})"
                * bool(row["n"])
            ),
            code=f"{_WHAT_IF} {shlex.quote(row['scenario'])}" if row["scenario"] else "",
        )


def _label(row: Row) -> str:
    if not row["n"]:
        return "As measured"
    return f"{row['n']}. {row['title']}"


def _anchor(row: Row, findings: Findings) -> str:
    """Return where the finding is on the page that a fix is of."""
    keys = ("rule", "ranks", "group_id", "scenario")
    for place, found in enumerate(findings.rows):
        if row["n"] and all(found[key] == row[key] for key in keys):
            return finding_id(place)
    return "budget"


def _command(rows: list[Row]) -> Iterator[str]:
    scenarios = [shlex.quote(row["scenario"]) for row in rows if row["scenario"]]
    if scenarios:
        yield " ".join([_WHAT_IF, *scenarios])


def _table(worth: Worth) -> Table:
    return rows_table(
        "fixes",
        "The first n fixes together",
        "fixes",
        {
            "label": Column("Fixed"),
            "step_ns": "",
            "gain_ns": "Adds",
            "alone_ns": "",
            "together_share": "Together",
            "bottleneck": "Bottleneck then",
        },
        ({**row, "label": _label(row)} for row in worth.rows),
    )
