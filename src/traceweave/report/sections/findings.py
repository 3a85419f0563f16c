"""What costs the run time, by the rules of the analysis `findings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import duckdb

from traceweave.analyses.parameters import common_parameters
from traceweave.report.columns import rows_table
from traceweave.report.page import Origin, Section, Table
from traceweave.report.query import Row, analysis_rows
from traceweave.words import percent


@dataclass(frozen=True)
class Findings:
    """Rows of the analysis `findings`, in its order: by cost."""

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
    def told(self) -> list[Row]:
        """Those under the headline: the costliest, that it names, and what is no mere info."""
        worst = self.worst
        return [row for row in self.rows if row is worst or row["severity"] != "info"]

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
    return f"the largest cost, {share_in_words(worst)}: {worst['title']}"


def share_in_words(finding: Row) -> str:
    """Say what a finding costs, and what that is a share of."""
    most = "" if finding["cost_is"] == "replayed" else "at most "
    return f"{most}{percent(finding['step_share'])} of a {finding['per']}"


def finding_id(place: int) -> str:
    """Return the id on the page of the finding at a place of the table."""
    return f"finding-{place + 1}"


def findings_section(findings: Findings) -> Section:
    """Lay out every finding with its evidence and what to try."""
    return Section(
        anchor="findings",
        title="Findings",
        lead=(
            "What costs time, by rules with numbers. A cost is what a step gains if only this is"
            " fixed, as replay says; where that cannot be asked it is a bound, what the step would"
            " gain at most." + (" Costs do not add up." if findings.costs > 1 else "")
        ),
        tables=(_table(findings),),
        origins=(
            Origin("Findings", "traceweave analyze findings run.duckdb"),
            Origin("The run on one screen", "traceweave analyze health run.duckdb"),
        ),
        empty="" if findings.rows else "No rule has anything to say about this run.",
    )


def _table(findings: Findings) -> Table:
    return rows_table(
        "findings",
        "Findings by cost",
        "findings",
        {
            "severity": "",
            "title": "Found",
            "evidence": "",
            "cost_ns": "Cost per step",
            "uncertainty_ns": "±",
            "step_share": "Share",
            "advice": "What to try",
            "scenario": "",
            "proof": "Rows",
        },
        findings.rows,
        ids=tuple(finding_id(place) for place in range(len(findings.rows))),
    )
