"""Findings are read at once: short titles, short sentences, no word that says nothing to a user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import traceweave
from tests.conftest import SHARED
from tests.marks import at_once

FIXTURES = Path(__file__).parent.parent / "fixtures"
ALL = {
    f"fixtures/{one.name}": one
    for one in sorted(FIXTURES.iterdir())
    if one.is_dir() and one.name not in ("record", "message_truth", "flight_recorder", "mpi_nsys")
} | {
    f"{one.parent.name}/{one.name}": one
    for kind in ("kineto", "cases", "flight_recorder")
    for one in sorted((SHARED / "corpus" / kind).glob("*"))
    if one.name not in ("odd", "mtia", "no_rank", "torchrec_two_runs_in_one_folder")
}
"""Runs by name; of the corpus those of small files, where it is there."""

TITLE, SENTENCE = 12, 25
"""Words of a title and of a sentence, at most."""

BANNED = ("as a rule", "of one's own", "is told", "stand out", "stands out")


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text: a name such as '.item()' ends none."""
    yield from re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", text)


def faults(row: dict[str, str | None]) -> list[str]:
    """Return what of a finding's texts is too long, or banned."""
    found = []
    texts = {part: row[part] or "" for part in ("title", "evidence", "advice")}
    if not 0 < len(texts["title"].split()) <= TITLE:
        found.append(texts["title"])
    for text in texts.values():
        found += [one for one in _sentences(text) if len(one.split()) > SENTENCE]
        found += [word for word in BANNED if word in text.lower()]
    return found


def test_what_is_too_long_or_banned_is_found() -> None:
    good = {"title": "Rank 2 waits", "evidence": "word " * 25 + "here.", "advice": None}
    assert faults(good) == ["word " * 25 + "here."]
    assert faults({**good, "evidence": "a b. " + "Word " * 24, "title": "w " * 13}) == ["w " * 13]
    assert faults({**good, "evidence": "No rank stands out"}) == ["stands out"]


@pytest.mark.parametrize(
    "name",
    at_once(ALL, "fixtures/ddp_gloo_straggler"),
)
def test_findings_are_short(name: str, database_of: Callable[..., Path]) -> None:
    with traceweave.open(database_of(ALL[name]), frames="arrow") as run:
        rows = run.findings().to_pylist()
    assert [fault for row in rows for fault in faults(row)] == []
