"""Collectives: how long they take, how much of that is waiting, and who makes the others wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb

from traceweave.analyses import LATE, cause_words
from traceweave.report.columns import rows_table
from traceweave.report.page import Column, Figure, Origin, Section, Table, bars
from traceweave.report.query import Row, analysis_rows, relation_rows
from traceweave.report.sections.matching import (
    MATCHING,
    Matching,
    load_matching,
    matching_in_words,
)
from traceweave.report.selection import Selection, select_ranks
from traceweave.words import count, duration, percent, plural, size

CHART_ROWS = 14
"""Kinds of collective drawn in the chart of durations."""

_QUANTILES = ("p50", "p95", "p99", "max")


@dataclass(frozen=True)
class Collectives:
    """Rows of the analyses tails and stragglers, what was matched, and the names of groups."""

    tails: list[Row]
    waits: list[Row]
    """By rank."""
    matching: Matching
    groups: dict[int, str]
    meaning: dict[str, str]
    """What causes of being late are, in words."""

    @property
    def waited_ns(self) -> int:
        """Waiting, summed over ranks, in collectives where the clocks can tell that ranks waited:
        as much as was waited because of ranks."""
        return sum(w["waited_ns"] for w in self.waits)

    @property
    def shown(self) -> Selection:
        """The rows of ranks that are shown where there are many."""
        return select_ranks(self.waits, lambda row: row["origin_wait_ns"])


def load_collectives(con: duckdb.DuckDBPyConnection) -> Collectives:
    """Read the tails per kind of collective and the waiting per rank."""
    groups = {
        g["group_id"]: g["description"] or g["name"] or f"group {g['group_id']}"
        for g in relation_rows(con, "groups", "group_id")
    }
    waits = sorted(analysis_rows(con, "stragglers"), key=lambda row: row["rank"])
    return Collectives(
        analysis_rows(con, "tails"), waits, load_matching(con), groups, cause_words(con, LATE)
    )


def waits_in_words(collectives: Collectives, ranks: int) -> str:
    """Say in one sentence who the others wait for, or why that cannot be said."""
    matching = collectives.matching
    if ranks < 2:
        return "With a single rank nothing can be said about waiting between ranks."
    if not matching.shared:
        return "No collective was matched between ranks, so who waits for whom is not known."
    waited = matching.shared - matching.buffered
    if not waited:
        return (
            "Every send was over before its receive began: messages were buffered, no rank waited."
        )
    if not matching.known_instances:
        return (
            f"In none of {plural(waited, 'matched collective')} can the clocks tell"
            " which rank came last: no rank is shown to hold up the others."
        )
    if not collectives.waited_ns:
        return (
            "Where the clocks can tell which rank came last, the step is left out as unknown:"
            " no rank is shown to hold up the others."
        )
    waits = sorted(collectives.waits, key=lambda w: (-w["origin_wait_ns"], w["rank"]))
    first, second = waits[:2]
    part, share = (w["origin_wait_ns"] / collectives.waited_ns for w in (first, second))
    where = (
        f"{duration(first['origin_wait_ns'])}, summed over the waiting ranks, {percent(part)} of"
        f" all waiting. It came last in {count(first['known_last'])} of"
        f" {plural(first['known_instances'], 'collective')} where the clocks resolve that"
    )
    if share >= 0.1:
        where += f"; rank {second['rank']} comes next with {percent(share)} of the waiting"
    where += f". {_why(collectives, first)}"
    if part < 0.5 and part < 2 * share:
        return f"No single rank holds up the rest. Most is due to rank {first['rank']}: {where}."
    return f"The ranks wait most for rank {first['rank']}: {where}."


def _why(collectives: Collectives, row: Row) -> str:
    """Say what a rank did longer on its way to collectives; no stop at the end."""
    if row["cause"] is None:
        return f"Why is not known{': ' + row['note'] if row['note'] else ''}"
    detail = f" ({row['cause_detail']})" if row["cause_detail"] else ""
    return f"On its way {collectives.meaning[row['cause']]}{detail}"


def waiting_in_words(collectives: Collectives) -> str:
    """Say in one sentence how much of the time inside collectives is waiting, by no clock."""
    inside = sum(w["inside_ns"] or 0 for w in collectives.waits)
    waited = sum(w["waited_free_ns"] or 0 for w in collectives.waits)
    if not inside:
        return ""
    return (
        f"{percent(waited / inside)} of the time that ranks spend inside matched collectives"
        " without a root is waiting for the last one to join."
    )


def collectives_section(collectives: Collectives, ranks: int) -> Section:
    """Lay out waiting per rank and tails per kind of collective."""
    matching = collectives.matching
    notes = []
    if matching.calls:
        said = (waiting_in_words(collectives), waits_in_words(collectives, ranks))
        notes = [" ".join(text for text in said if text), matching_in_words(matching)]
    figures = [*_wait_figure(collectives), *_tail_figure(collectives)]
    return Section(
        anchor="collectives",
        title="Waiting for others, and tails of collectives",
        lead=(
            "A collective begins on each rank when that rank arrives and moves data once the last"
            " one has. What comes before is waiting, what comes after is transfer."
        ),
        notes=tuple(notes),
        figures=tuple(figures),
        tables=(*_wait_table(collectives), *_tail_table(collectives)),
        origins=(
            Origin("Waiting per rank", "traceweave analyze stragglers run.duckdb"),
            Origin("Tails", "traceweave analyze tails run.duckdb"),
            MATCHING,
        ),
        empty="" if matching.calls else "No collective operation was recorded.",
        terms={
            "Waiting": "from a rank's arrival to the last rank's, on the common clock; exposed"
            " where the rank computes nothing at the time",
            "Transfer": "from the last rank's arrival to the last rank's end",
            "Came last": "later than every other rank by more than the clocks' resolution",
            "Waited for": "the rank that has not arrived; if several have not, each for its part;"
            " if another group held it up, the rank that did",
            "Clock-free wait": "the same waiting measured without clocks, in collectives without a"
            " root: for so long as a rank's duration exceeds the shortest of that collective",
            **{
                cause: f"on its way to the collectives {collectives.meaning[cause]}"
                for cause in dict.fromkeys(row["cause"] for row in collectives.shown.rows)
                if cause is not None
            },
            "p50, p95, p99": "half, 95% and 99% take no longer than this: of durations the calls,"
            " one per rank, of waits the calls that wait, of transfers the collectives",
        },
    )


def _wait_figure(collectives: Collectives) -> list[Figure]:
    shown = collectives.shown
    waits = shown.rows
    if len(waits) < 2:
        return []
    chart = bars(
        [str(w["rank"]) for w in waits],
        ("Others waited for this rank", "caused", [w["origin_wait_ns"] for w in waits]),
        ("This rank waited for others", "waited", [w["waited_ns"] for w in waits]),
        axis="Rank",
    )
    label = (
        "Bar chart per rank: time that others waited for it and time that it waited for others."
        f" {waits_in_words(collectives, len(collectives.waits))}"
        " The table “Who is waited for, and why” holds the numbers."
    )
    unit = shown.told("total over all collectives and waiting ranks")
    return [Figure("waits", "Who makes the others wait", unit, label, chart, height=300)]


def _wait_table(collectives: Collectives) -> list[Table]:
    if not collectives.waits:
        return []
    shown = collectives.shown
    return [
        rows_table(
            "stragglers",
            "Who is waited for, and why",
            "stragglers",
            {
                "rank": "",
                "host": "",
                "instances": "Collectives",
                "known_last": Column("Times", group="Came last"),
                "known_last_share": Column("Share", "percent", "Of these", group="Came last"),
                "origin_wait_ns": "Others waited for it",
                "delay_max_ns": "Longest delay",
                "cause": "",
                "cause_detail": "Namely",
                "cause_share": "Share",
                "worst_share": "Worst in steps",
                "waited_ns": "Waited for others",
                "waited_free_ns": "Clock-free wait",
                "inside_ns": "Inside collectives",
            },
            map(_with_known_share, shown.rows),
            note=shown.note("waiting caused", "traceweave analyze stragglers run.duckdb"),
        )
    ]


def _with_known_share(row: Row) -> Row:
    """Return a row with the share of the collectives in which the clocks resolve who came last."""
    known = row["known_instances"]
    return {**row, "known_last_share": row["known_last"] / known if known else None}


def _tail_figure(collectives: Collectives) -> list[Figure]:
    tails = sorted(
        (t for t in collectives.tails if t["duration_p50_ns"]),
        key=lambda t: -t["calls"] * t["duration_p50_ns"],
    )[:CHART_ROWS]
    if not tails:
        return []
    chart: dict[str, Any] = {
        "kind": "quantiles",
        "measure": "duration",
        "categories": [_kind(t, collectives.groups) for t in tails],
        "variants": [
            {
                "label": label,
                "role": part,
                "values": [[t[f"{part}_{q}_ns"] for t in tails] for q in _QUANTILES],
            }
            for part, label in (
                ("duration", "Duration"),
                ("wait", "Wait"),
                ("transfer", "Transfer"),
            )
        ],
        "series": [{"label": q, "role": q} for q in _QUANTILES],
    }
    label = (
        "Chart of the median, 95th and 99th percentile and maximum, per kind of collective, those"
        " that take most time first. The table “Tails per kind of collective” holds the numbers."
    )
    height = 120 + 36 * len(tails)
    return [
        Figure(
            "tails",
            "How long collectives take",
            "per call of a rank; transfer per collective",
            label,
            chart,
            height=height,
            origin="Tails",
        )
    ]


def _kind(tail: Row, groups: dict[int, str]) -> str:
    group = groups.get(tail["group_id"], "no group")
    return f"{tail['op']} · {group} · {_sizes(tail)}"


def _sizes(tail: Row) -> str:
    low, high = tail["bytes_from"], tail["bytes_to"]
    if low is None:
        return "size unknown"
    return size(low) if high is None or low == high else f"{size(low)} to {size(high)}"


def _tail_table(collectives: Collectives) -> list[Table]:
    if not collectives.tails:
        return []
    parts = {
        f"{part.lower()}_{quantile}_ns": Column(quantile, group=part)
        for part in ("Duration", "Wait", "Transfer")
        for quantile in _QUANTILES
    }
    last = "Last most often"
    return [
        rows_table(
            "tails",
            "Tails per kind of collective",
            "tails",
            {
                "op": "Operation",
                "group_id": Column("Group", "name"),
                "size": Column("Size"),
                "calls": "Calls",
                "instances": "Matched",
                **parts,
                "tail_ratio": "Tail",
                "last_rank": Column("Rank", "int", group=last),
                "last_rank_share": Column("Share", group=last),
                "tail_is": Column("Rests on", group="Tail"),
                "tail_rank": Column("Rank", "int", group="Tail"),
                "tail_rank_cause": Column("Why", "name", group="Tail"),
                "tail_steps": Column("Steps", "count", group="Tail"),
            },
            (
                {
                    **row,
                    "group_id": collectives.groups.get(row["group_id"]),
                    "size": _sizes(row),
                    "tail_steps": row["tail_steps"] and len(row["tail_steps"]),
                }
                for row in collectives.tails
            ),
            origin="Tails",
        )
    ]
