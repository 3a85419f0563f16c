"""The time in which nothing ran on a device, by cause and one by one."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb

from traceweave.analyses import analysis_relation
from traceweave.report.page import Column, Figure, Origin, Section, Table
from traceweave.report.query import Row, query_rows, query_text, standing_as
from traceweave.words import duration, percent

CAUSES = {
    "launch_bound": "the host launched the next operation only after the device had run dry",
    "dependency": "the next operation was queued but waited for another stream, usually for a"
    " collective",
    "sync": "the host sat in a call that waits for the device",
    "data_loading": "the host was loading data",
    "kernel_delay": "the next operation was ready and started within the usual launch delay",
    "unknown": "the traces do not tell",
}
"""What each cause of a gap means, in plain words."""

_SHOWN = ("rank", "step", "duration_ns", "cause", "host_op", "after_op", "before_op")
_COMMAND = "traceweave analyze gaps run.duckdb"


@dataclass(frozen=True)
class Gaps:
    """Rows of queries gaps_by_cause and worst_gaps, over those of analysis gaps."""

    causes: list[Row]
    worst: list[Row]
    relation: str
    """The temporary table that holds the rows of the analysis."""

    @property
    def total_ns(self) -> int:
        """Length of all device gaps together."""
        return sum(c["total_ns"] for c in self.causes)


def load_gaps(con: duckdb.DuckDBPyConnection) -> Gaps:
    """Read the device gaps, counted and summed by cause, and the longest of them."""
    relation = analysis_relation(con, "gaps")
    with standing_as(con, gaps=f"FROM {relation}"):
        return Gaps(query_rows(con, "gaps_by_cause"), query_rows(con, "worst_gaps"), relation)


def gaps_in_words(gaps: Gaps) -> str:
    """Say in one sentence what most of the time in gaps comes from, and the longest gap."""
    if not gaps.causes or not gaps.total_ns:
        return ""
    first, longest = gaps.causes[0], gaps.worst[0]
    meaning = CAUSES.get(first["cause"], "")
    step = "" if longest["step"] is None else f" in step {longest['step']}"
    part = first["total_ns"] / gaps.total_ns
    much = "all of it" if part == 1 else f"{'most' if part > 0.5 else 'the largest part'} of it"
    return (
        f"Gaps add up to {duration(gaps.total_ns)} in total; {much}"
        f"{'' if part == 1 else f' ({percent(part)})'} is {first['cause']}"
        f"{': ' + meaning if meaning else ''}. The longest lasts"
        f" {duration(longest['duration_ns'])}, on rank {longest['rank']}{step}."
    )


def gaps_section(gaps: Gaps) -> Section:
    """Lay out gaps by cause and the worst gaps."""
    return Section(
        anchor="gaps",
        title="Gaps",
        lead="A gap is a stretch of a step in which the rank has nothing at all running.",
        notes=(gaps_in_words(gaps),) if gaps.causes else (),
        figures=(_figure(gaps),) if gaps.causes else (),
        tables=(_cause_table(gaps), _worst_table(gaps)) if gaps.causes else (),
        origins=(
            Origin("All gaps", _COMMAND),
            Origin("Gaps by cause", query_text("gaps_by_cause")),
            Origin("Longest gaps", query_text("worst_gaps")),
        ),
        empty="" if gaps.causes else "No gap was found inside the windows measured.",
        terms={c["cause"]: CAUSES[c["cause"]] for c in gaps.causes if c["cause"] in CAUSES},
    )


def _figure(gaps: Gaps) -> Figure:
    return Figure(
        "gaps",
        "Gap time by cause",
        "total over ranks and steps",
        f"Bar chart: {gaps_in_words(gaps)} The table “Gaps by cause” holds the numbers.",
        {
            "kind": "bars",
            "horizontal": True,
            "axis": "",
            "categories": [c["cause"] for c in gaps.causes],
            "measure": "duration",
            "series": [{"label": "Total", "role": "gap"}],
            "variants": [{"label": "", "values": [[c["total_ns"] for c in gaps.causes]]}],
        },
        height=72 + 34 * len(gaps.causes),
        origin="Gaps by cause",
    )


def _cause_table(gaps: Gaps) -> Table:
    return Table(
        "gap-causes",
        "Gaps by cause",
        (
            Column("Cause", "name"),
            Column("Gaps", "count"),
            Column("Total", "duration", own_unit=True),
            Column("Share", "percent"),
            Column("Median", "duration"),
            Column("Longest", "duration"),
        ),
        tuple(
            (
                c["cause"],
                c["gaps"],
                c["total_ns"],
                c["total_ns"] / gaps.total_ns if gaps.total_ns else None,
                c["median_ns"],
                c["longest_ns"],
            )
            for c in gaps.causes
        ),
        origin="Gaps by cause",
    )


def _worst_table(gaps: Gaps) -> Table:
    return Table(
        "worst-gaps",
        f"The {len(gaps.worst)} longest gaps",
        (
            Column("Rank", "int"),
            Column("Step", "int"),
            Column("Length", "duration"),
            Column("Cause", "name"),
            Column("Host meanwhile", "name", note="What covers most of the gap on the host"),
            Column("After", "name", note="Operation that ended when the gap began"),
            Column("Before", "name", note="Operation that ended the gap"),
        ),
        tuple(tuple(g[key] for key in _SHOWN) for g in gaps.worst),
        origin="Longest gaps",
    )
