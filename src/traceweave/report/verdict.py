"""The first paragraph of the page: what the numbers say in plain words, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from traceweave.report.page import Card
from traceweave.report.sections.budget import Budget, budget_in_words, share
from traceweave.report.sections.clocks import Clocks, clocks_in_words
from traceweave.report.sections.findings import (
    MOST_TOLD,
    Findings,
    headline_in_words,
    rest_in_words,
)
from traceweave.report.sections.inputs import Inputs, fitness, losses, without_gpu_work
from traceweave.words import duration, percent


class Sentence(NamedTuple):
    """One statement and the section that holds its evidence."""

    text: str
    anchor: str


class Figure(NamedTuple):
    """One headline number."""

    label: str
    value: str
    anchor: str
    role: str


class Part(NamedTuple):
    """One part of the time budget over all ranks, for the bar under the headline."""

    label: str
    share: float
    text: str
    role: str


@dataclass(frozen=True)
class Verdict:
    """Headline, paragraph, headline numbers and the budget bar."""

    headline: str
    sentences: tuple[Sentence, ...]
    figures: tuple[Figure, ...]
    parts: tuple[Part, ...]
    subject: str = ""
    """What the headline is about, where the facts of a run do not say it."""
    cards: tuple[Card, ...] = ()
    """The costliest findings."""
    rest: str = ""
    """How many findings more there are."""
    caveats: tuple[Sentence, ...] = ()
    """How far to trust all this."""


def judge(
    inputs: Inputs,
    budget: Budget,
    findings: Findings,
    clocks: Clocks,
    cards: tuple[Card, ...],
) -> Verdict:
    """Put the time budget, the costliest findings and how far to trust them in one paragraph;
    `cards` are those of all findings."""
    cpu, told = inputs.is_cpu_run, tuple(cards[place] for place in findings.told[:MOST_TOLD])
    sentences = [
        Sentence(_timeline(inputs, budget), "input"),
        Sentence(budget_in_words(budget, cpu), "budget"),
    ]
    caveats = [
        Sentence(fitness(inputs), "input"),
        Sentence(clocks_in_words(clocks), "clocks"),
        Sentence(losses(inputs) if inputs.sources else "", "input"),
    ]
    if not inputs.ranks:
        sentences, caveats = [], caveats[2:]
    return Verdict(
        headline=_headline(inputs, budget, findings, cpu),
        sentences=tuple(s for s in sentences if s.text),
        figures=_figures(budget),
        parts=_parts(budget),
        cards=told if inputs.ranks or findings.hangs else (),
        rest=rest_in_words(findings) if inputs.ranks else "",
        caveats=tuple(s for s in caveats if s.text),
    )


def _timeline(inputs: Inputs, budget: Budget) -> str:
    if inputs.is_cpu_run:
        if not budget.rows:
            # where ranks are unknown, the recording says why: what they did may be there, unread
            known = not any(row["verdict"] == "unknown" for row in inputs.recording)
            return "Neither GPU work nor CPU operators were recorded." if known else ""
        return (
            "No GPU work was recorded, so times are those of CPU operators and of collectives run"
            " by the host."
        )
    return without_gpu_work(inputs) if inputs.cpu_ranks else ""


def _headline(inputs: Inputs, budget: Budget, findings: Findings, cpu: bool) -> str:
    if findings.hangs:
        return str(findings.hangs[0]["evidence"]).partition(", for which")[0].partition(". ")[0]
    if not inputs.ranks:
        return "This database holds no recorded ranks"
    if not budget.rows and any(row["verdict"] == "unknown" for row in inputs.recording):
        return "The records of this run support no number"
    if not budget.rows:
        return "No work was recorded that a time budget could be made of"
    what = "the step" if budget.has_steps else "the recording"
    work = "is CPU operators at work" if cpu else "is compute"
    compute = percent(share(budget.total, "compute_ns"))
    return f"{compute} of {what} {work}; {headline_in_words(findings)}"


def _figures(budget: Budget) -> tuple[Figure, ...]:
    if not budget.rows:
        return ()
    total = budget.total
    several = ", mean" if len(budget.steps) > 1 else ""
    length = Figure(
        f"Step time{several}" if budget.has_steps else "Recording, mean",
        duration(budget.length_ns),
        "budget",
        "total",
    )
    parts = [
        Figure(part.label, percent(share(total, part.key)), "budget", part.role)
        for part in budget.parts
    ]
    hidden = Figure("Communication hidden", percent(total["hidden"]), "overlap", "hidden")
    return (length, *parts, hidden)


def _parts(budget: Budget) -> tuple[Part, ...]:
    total = budget.total
    shares = [(part, share(total, part.key)) for part in budget.parts]
    return tuple(
        Part(part.label, round(much, 5), percent(much), part.role) for part, much in shares if much
    )
