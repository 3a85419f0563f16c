"""Where on the timeline a finding shows best: the longest stretch drawn of what it is about."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from traceweave.analyses.rules import subject_said
from traceweave.report.query import Row
from traceweave.report.sections.timeline import Timeline


class Place(NamedTuple):
    """A stretch of one of the steps drawn, ns from the beginning of that step."""

    step: int
    """Which of the steps drawn, from 0."""
    ranks: list[int]
    """Ranks to be shown: the one that the stretch is on, and those the finding is about."""
    start: int
    duration: int


def place_of(timeline: Timeline, finding: Row) -> Place | None:
    """Return the longest stretch of what a finding is about; None if nothing of it is drawn."""
    try:
        subject, ranks = subject_said(finding["shows"]), finding["ranks"] or []
    except ValueError:  # a rule of one's own says it wrongly
        return None
    if subject is None:
        return None
    if subject.kind == "steps":
        return _longest_step(timeline)
    if subject.kind == "waits":
        return _longest_wait(timeline, ranks)
    if subject.kind == "transfers":
        calls = timeline.ops.filter(pc.equal(timeline.ops["category"], "communication"))
        moved = pc.subtract(calls["duration_ns"], pc.fill_null(calls["wait_ns"], 0))
        return _longest(timeline, calls.append_column("moved_ns", moved), "moved_ns", ranks)
    rows, column = (
        (timeline.gaps, "cause") if subject.kind == "gaps" else (timeline.ops, "category")
    )
    rows = rows.filter(pc.equal(rows[column], subject.which))
    return _longest(timeline, _of(rows, ranks), "duration_ns", ranks)


def _longest_wait(timeline: Timeline, ranks: list[int]) -> Place | None:
    """Return where a rank waits longest, for one of `ranks` if any is named.

    At its first collective a rank may wait for others that began recording later: only where
    there is no other wait, that is shown.
    """
    waits = timeline.ops.filter(pc.greater(pc.fill_null(timeline.ops["wait_ns"], 0), 0))
    if ranks:
        waits = waits.filter(pc.is_in(waits["last_rank"], pa.array(ranks, pa.int32())))
    first = waits.group_by(["role", "rank"]).aggregate([("start_ns", "min")])
    later = waits.join(first, ["role", "rank"])
    later = later.filter(pc.greater(later["start_ns"], later["start_ns_min"]))
    return _longest(timeline, later if later.num_rows else waits, "wait_ns", ranks)


def _of(rows: pa.Table, ranks: list[int]) -> pa.Table:
    """Return the rows of these ranks; all if none is named, or none of them is drawn."""
    own = rows.filter(pc.is_in(rows["rank"], pa.array(ranks, pa.int32())))
    return own if own.num_rows else rows


def _longest(timeline: Timeline, rows: pa.Table, by: str, ranks: list[int]) -> Place | None:
    if not rows.num_rows:
        return None
    order = [(by, "descending"), ("rank", "ascending"), ("start_ns", "ascending")]
    first = rows.take(pc.sort_indices(rows, order)[:1]).to_pylist()[0]
    drawn = [row["rank"] for row in timeline.ranks if row["rank"] in {*ranks, first["rank"]}]
    step = [step["role"] for step in timeline.steps].index(first["role"])
    return Place(step, drawn, first["start_ns"], first["duration_ns"])


def _longest_step(timeline: Timeline) -> Place | None:
    for place, step in enumerate(timeline.steps):
        if step["role"] == "longest":
            return Place(place, [step["slowest_rank"]], 0, step["until_ns"] - step["from_ns"])
    return None
