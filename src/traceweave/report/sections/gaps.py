"""The time in which nothing ran on a device, by cause and one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import duckdb

from traceweave.analyses import IDLE, analysis_relation, cause_words
from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars
from traceweave.report.query import Row
from traceweave.report.sections.budget import Budget
from traceweave.words import duration, percent

LONGEST = 25
"""Gaps that are listed one by one."""

MANY = 100_000
"""Above so many gaps only those from LISTED_NS on are listed and drawn: a row takes some 3 KB."""
LISTED_NS = 10_000

_CAUSES = "traceweave analyze idle_causes run.duckdb"
_WORST = f"traceweave analyze gaps run.duckdb --rows {LONGEST}"


@dataclass(frozen=True)
class Gaps:
    """Rows of the analysis idle_causes, summed over ranks and steps, and the longest of gaps."""

    causes: list[Row]
    worst: list[Row]
    meaning: dict[str, str]
    """What each cause is, in words."""
    relation: str
    """The temporary table that holds the rows of the analysis gaps; if there are MANY, the long
    ones."""

    @property
    def are_many(self) -> bool:
        """There are more than are listed and drawn one by one."""
        return sum(c["gaps"] or 0 for c in self.causes) > MANY

    @property
    def idle_ns(self) -> int:
        """Time in which nothing ran, over all ranks and steps."""
        return sum(c["idle_ns"] for c in self.causes)


def load_gaps(con: duckdb.DuckDBPyConnection, budget: Budget) -> Gaps:
    """Read the idle time of the windows of the budget by its cause, and the longest gaps."""
    windows = "step IS NOT NULL" if budget.has_steps else "TRUE"
    causes = (
        con.table(analysis_relation(con, "idle_causes"))
        .filter(windows)
        .aggregate(
            "cause, CAST(sum(idle_ns) AS BIGINT) AS idle_ns, CAST(sum(gaps) AS BIGINT) AS gaps,"
            " max(longest_ns) AS longest_ns, max(timeline) AS timeline"
        )
        .order("idle_ns DESC, cause")
    )
    found = _rows(causes)
    words = "words_on_cpu" if all(row["timeline"] == "cpu" for row in found) else "words"
    gaps = Gaps(found, [], cause_words(con, IDLE, words), "")
    shortest = {"min_gap_ns": LISTED_NS} if gaps.are_many else {}
    relation = analysis_relation(con, "gaps", **shortest)
    worst = con.table(relation).filter(windows).order("duration_ns DESC, rank, start_ns")
    return replace(gaps, worst=_rows(worst.limit(LONGEST)), relation=relation)


def _rows(found: duckdb.DuckDBPyRelation) -> list[Row]:
    return found.to_arrow_table().to_pylist()  # type: ignore[no-any-return]


def gaps_in_words(gaps: Gaps) -> str:
    """Say in one sentence what most of the idle time comes from, and the longest gap."""
    if not gaps.idle_ns:
        return ""
    first = gaps.causes[0]
    part = first["idle_ns"] / gaps.idle_ns
    much = "all of it" if part == 1 else f"{'most' if part > 0.5 else 'the largest part'} of it"
    text = (
        f"Idle time adds up to {duration(gaps.idle_ns)} over all ranks and steps; {much}"
        f"{'' if part == 1 else f' ({percent(part)})'} is {first['cause']}:"
        f" {gaps.meaning[first['cause']]}."
    )
    if not gaps.worst:
        return text
    longest = gaps.worst[0]
    step = "" if longest["step"] is None else f" in step {longest['step']}"
    return (
        f"{text} The longest gap lasts {duration(longest['duration_ns'])}, on rank"
        f" {longest['rank']}{step}."
    )


def gaps_section(gaps: Gaps) -> Section:
    """Lay out idle time by cause and the longest gaps."""
    found = bool(gaps.idle_ns)
    summed = f"Gaps shorter than {duration(LISTED_NS)} are summed by cause, not listed or drawn."
    notes = [gaps_in_words(gaps), *([summed] if gaps.are_many else [])]
    return Section(
        anchor="gaps",
        title="Gaps",
        lead="A gap is a stretch of a step in which the rank has nothing at all running.",
        notes=tuple(notes) if found else (),
        figures=(_figure(gaps),) if found else (),
        tables=(_cause_table(gaps), _worst_table(gaps)) if found else (),
        origins=(Origin("Idle time by cause", _CAUSES), Origin("Longest gaps", _WORST)),
        empty="" if found else "No gap was found inside the windows measured.",
        terms={c["cause"]: gaps.meaning[c["cause"]] for c in gaps.causes},
    )


def _figure(gaps: Gaps) -> Figure:
    return Figure(
        "gaps",
        "Idle time by cause",
        "total over ranks and steps",
        f"Bar chart: {gaps_in_words(gaps)} The table “Idle time by cause” holds the numbers.",
        bars(
            [c["cause"] for c in gaps.causes],
            ("Total", "gap", [c["idle_ns"] for c in gaps.causes]),
        ),
        height=72 + 34 * len(gaps.causes),
    )


def _cause_table(gaps: Gaps) -> Table:
    return Table(
        "gap-causes",
        "Idle time by cause",
        (
            Column("Cause", "name"),
            Column("Total", "duration", own_unit=True),
            Column("Share", "percent", "Of the idle time"),
            Column("Gaps", "count", "Or parts of gaps, where a gap has several causes"),
            Column("Mean", "duration", "Total / gaps"),
            Column("Longest", "duration"),
        ),
        tuple(
            (
                c["cause"],
                c["idle_ns"],
                c["idle_ns"] / gaps.idle_ns,
                c["gaps"],
                round(c["idle_ns"] / c["gaps"]) if c["gaps"] else None,
                c["longest_ns"],
            )
            for c in gaps.causes
        ),
    )


def _worst_table(gaps: Gaps) -> Table:
    return rows_table(
        "worst-gaps",
        f"The {len(gaps.worst)} longest gaps",
        "gaps",
        {
            "rank": "",
            "step": "",
            "duration_ns": "Length",
            "cause": "",
            "host_op": "Host activity",
            "after_op": "After",
            "before_op": "Before",
        },
        gaps.worst,
        origin="Longest gaps",
    )
