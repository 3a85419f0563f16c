"""What costs the run time, by the rules of the analysis `findings`."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.report.page import Column, Origin, Section, Table
from traceweave.report.quantities import percent, rank_list
from traceweave.report.query import Row, analysis_rows

MOST_TOLD = 3
"""Findings that the first paragraph tells; the table has all."""

_NAMES = {
    "straggler": "waiting for a straggler",
    "imbalance": "ranks waiting for each other",
    "pipeline_wait": "pipeline stages waiting for each other",
    "communication_bound": "communication that nothing hides",
    "poor_overlap": "poor overlap of communication",
    "small_collectives": "collectives too small",
    "slow_link": "a slow link",
    "long_tail": "collectives that take long now and then",
    "launch_bound": "a host that launches too late",
    "sync_bound": "synchronizing with the host",
    "data_bound": "waiting for data",
    "unexplained_idle": "unexplained idling",
    "short_gaps": "short gaps between kernels",
    "pageable_copies": "copies from pageable memory",
    "exposed_copies": "copies that run alone",
    "slow_kernels": "a rank with slow kernels",
    "unsteady_steps": "unsteady steps",
}
"""Rule -> what it is about, for the headline."""


@dataclass(frozen=True)
class Findings:
    """Rows of the analysis `findings`, in its order: by cost."""

    rows: list[Row]

    @property
    def faults(self) -> list[Row]:
        """Those that are a warning or critical, by cost."""
        return [row for row in self.rows if row["severity"] != "info"]


def load_findings(con: duckdb.DuckDBPyConnection) -> Findings:
    """Apply the rules to the run."""
    return Findings(analysis_rows(con, "findings"))


def headline_in_words(findings: Findings) -> str:
    """Say in a clause what costs most."""
    costly = [row for row in findings.faults if row["cost_ns"] is not None]
    if not costly:
        return "no finding is above information"
    worst = costly[0]
    where = f" (rank {rank_list(worst['ranks'])})" if len(worst["ranks"] or []) == 1 else ""
    name = _NAMES.get(worst["rule"], worst["rule"].replace("_", " "))
    return f"the largest cost is {name}{where}, {percent(worst['step_share'])}"


def findings_in_words(findings: Findings) -> str:
    """Tell the costliest findings, each with its numbers and what to try."""
    told = [
        f"{row['evidence']}{_share(row)}. Try: {row['advice']}."
        for row in findings.faults[:MOST_TOLD]
    ]
    rest = len(findings.faults) - len(told)
    if rest > 0:
        told.append(f"{rest} more below.")
    return " ".join(told)


def _share(row: Row) -> str:
    return f" ({percent(row['step_share'])} of the time)" if row["step_share"] is not None else ""


def findings_section(findings: Findings) -> Section:
    """Lay out every finding with its evidence and what to try."""
    table = Table(
        "findings",
        "Findings by cost",
        (
            Column(
                "Severity",
                note="critical and warning by what it costs; info: small, or so by design",
            ),
            Column("Found"),
            Column("Cost per step", "duration", "What the step would gain at most"),
            Column("Share", "percent", "Cost / mean step"),
            Column("What to try"),
            Column("Rows", note="The analysis that shows the rows behind it"),
        ),
        tuple(
            (
                row["severity"],
                row["evidence"],
                row["cost_ns"],
                row["step_share"],
                row["advice"],
                row["proof"],
            )
            for row in findings.rows
        ),
    )
    return Section(
        anchor="findings",
        title="Findings",
        lead=(
            "What costs time, by rules with numbers. A cost is what a step would gain at most if"
            " only this were different; costs overlap and do not add up."
        ),
        tables=(table,),
        origins=(
            Origin("Findings", "traceweave analyze findings run.duckdb"),
            Origin("The run on one screen", "traceweave analyze health run.duckdb"),
        ),
        empty="" if findings.rows else "No rule has anything to say about this run.",
    )
