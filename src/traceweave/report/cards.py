"""The findings in blocks, each with the way to its evidence and its place on the timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from traceweave.analyses.blocks import block, is_worth_it
from traceweave.analyses.catalog import library
from traceweave.report.header import by_the_day
from traceweave.report.page import Card, Link, Section
from traceweave.report.query import Row
from traceweave.report.sections.findings import Findings, finding_id
from traceweave.report.sections.timeline import Timeline
from traceweave.report.sections.timeline_places import place_of

SIGNS = {"critical": "■", "warning": "▲", "info": "○"}
"""Shapes beside the words, for those who see no colours and read no words."""


def cards(
    findings: Findings,
    sections: Sequence[Section],
    timeline: Timeline | None,
    run: str,
    gpus: int = 0,
) -> tuple[Card, ...]:
    """Tell every finding, with what it costs by the day and where to look; commands name the `run`;
    `gpus`: the ranks with one, of a run with steps.
    """
    return tuple(
        Card(
            finding_id(place),
            SIGNS[row["severity"]],
            block(row, run),
            f"{by_the_day(row['step_share'], gpus)} a day" if gpus and is_worth_it(row) else "",
            tuple(_links(row, sections, timeline)),
        )
        for place, row in enumerate(findings.rows)
    )


def _evidence(row: Row) -> str:
    """Return what on the page shows the rows behind a finding; '' for nothing."""
    said = library().rules.get(row["rule"]), library().analyses.get(row["proof"])
    return next(filter(None, (of.text("page") for of in said if of)), "")


def _links(row: Row, sections: Sequence[Section], timeline: Timeline | None) -> Iterator[Link]:
    wanted = _evidence(row)
    for section in sections:
        if wanted in section.ids:
            yield Link(f"Evidence: {section.title}", wanted)
    found = place_of(timeline, row) if timeline else None
    if found is not None:
        where = json.dumps(found._asdict(), separators=(",", ":"))
        yield Link("In the timeline", "figure-timeline", where)
