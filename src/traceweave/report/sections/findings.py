"""What costs the run time, by the rules of the analysis `findings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import duckdb

from traceweave.analyses.blocks import cost_in_words
from traceweave.analyses.parameters import common_parameters
from traceweave.report.page import Card, Origin, Section
from traceweave.report.query import Row, analysis_rows
from traceweave.words import plural

MOST_TOLD = 3
"""Findings under the headline; their own section has all."""


@dataclass(frozen=True)
class Findings:
    """Rows of the analysis `findings`, in its order: by severity, then cost."""

    rows: list[Row]

    @property
    def costs(self) -> int:
        """How many of them cost time."""
        return sum(bool(row["cost_ns"]) for row in self.rows)

    @property
    def worst(self) -> Row | None:
        """The costliest, if it costs what makes a warning, also if its rule never gives one."""
        much = cast("float", common_parameters()["warning_share"].default)
        return next((row for row in self.rows if (row["step_share"] or 0) >= much), None)

    @property
    def told(self) -> list[int]:
        """The places of those for under the headline: the costliest, that it names, and what is no
        mere info."""
        rows, worst = enumerate(self.rows), self.worst
        return [place for place, row in rows if row is worst or row["severity"] != "info"]

    @property
    def hangs(self) -> list[Row]:
        """What keeps a job from going on."""
        return [row for row in self.rows if row["rule"] == "hang"]


def load_findings(con: duckdb.DuckDBPyConnection) -> Findings:
    """Apply the rules to the run."""
    return Findings(analysis_rows(con, "findings"))


def headline_in_words(findings: Findings) -> str:
    """Say in a clause what costs most."""
    if (worst := findings.worst) is None:
        return "no finding would save much"
    return f"the largest cost, {cost_in_words(worst)}: {worst['title']}"


def rest_in_words(findings: Findings) -> str:
    """Say how many findings that are no mere info are not under the headline."""
    rest = len(findings.told) - MOST_TOLD
    return f"{plural(rest, 'more finding')} below." if rest > 0 else ""


def finding_id(place: int) -> str:
    """Return the id on the page of the finding at a place among all."""
    return f"finding-{place + 1}"


def findings_section(findings: Findings, cards: tuple[Card, ...]) -> Section:
    """Lay out every finding, each a card."""
    return Section(
        anchor="findings",
        title="Findings",
        lead=(
            "What costs time, by rules with numbers. A cost is what a step gains if only this is"
            " fixed, as replay says; where that cannot be asked it is a bound, what the step would"
            " gain at most." + (" Costs do not add up." if findings.costs > 1 else "")
        ),
        cards=cards,
        origins=(
            Origin("Findings", "traceweave analyze findings run.duckdb"),
            Origin("The run on one screen", "traceweave analyze health run.duckdb"),
        ),
        empty="" if findings.rows else "No rule has anything to say about this run.",
    )
