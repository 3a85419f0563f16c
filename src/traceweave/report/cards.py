"""The costliest findings under the headline, each with the way to its evidence and its place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from traceweave.analyses.catalog import library
from traceweave.report.header import by_the_day
from traceweave.report.page import Section
from traceweave.report.query import Row
from traceweave.report.sections.findings import Findings, finding_id, share_in_words
from traceweave.report.sections.timeline import Timeline
from traceweave.report.sections.timeline_places import place_of
from traceweave.words import plural

MOST_TOLD = 3
"""Findings that have a card; the table has all."""

SIGNS = {"critical": "■", "warning": "▲", "info": "○"}
"""Shapes beside the words, for those who see no colours and read no words."""


class Link(NamedTuple):
    """A way to somewhere on the page."""

    text: str
    anchor: str
    place: str = ""
    """Where on the timeline it leads, as JSON; '' for elsewhere."""


class Card(NamedTuple):
    """One finding."""

    severity: str
    sign: str
    title: str
    text: str
    share: str
    """What it costs, in words; empty where time is not what it costs."""
    advice: str
    links: tuple[Link, ...] = ()


def cards(
    findings: Findings, sections: Sequence[Section], timeline: Timeline | None, gpus: int = 0
) -> tuple[Card, ...]:
    """Tell the costliest findings, each with its numbers, what to try, and where to look; `gpus`:
    the ranks with one, of a run with steps.
    """
    places = {id(row): place for place, row in enumerate(findings.rows)}
    return tuple(
        Card(
            row["severity"],
            SIGNS[row["severity"]],
            row["title"],
            row["evidence"],
            _cost(row, gpus),
            row["advice"],
            tuple(_links(row, places[id(row)], sections, timeline)),
        )
        for row in findings.told[:MOST_TOLD]
    )


def _cost(row: Row, gpus: int) -> str:
    if row["step_share"] is None:
        return ""
    hours = f", {by_the_day(row['step_share'], gpus)} a day" if gpus and row["cost_ns"] else ""
    return share_in_words(row) + hours


def rest_in_words(findings: Findings) -> str:
    """Say how many findings have no card."""
    rest = len(findings.told) - MOST_TOLD
    return f"{plural(rest, 'more finding')} below." if rest > 0 else ""


def _evidence(row: Row) -> str:
    """Return what on the page shows the rows behind a finding; '' for nothing."""
    said = library().rules.get(row["rule"]), library().analyses.get(row["proof"])
    return next(filter(None, (of.text("page") for of in said if of)), "")


def _links(
    row: Row, place: int, sections: Sequence[Section], timeline: Timeline | None
) -> Iterator[Link]:
    wanted = _evidence(row)
    for section in sections:
        if wanted in section.ids:
            yield Link(f"Evidence: {section.title}", wanted)
    found = place_of(timeline, row) if timeline else None
    if found is not None:
        where = json.dumps(found._asdict(), separators=(",", ":"))
        yield Link("In the timeline", "figure-timeline", where)
    yield Link("All its numbers", finding_id(place))
