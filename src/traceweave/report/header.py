"""What stands above the verdict: which run this is, and what it loses by the day."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from traceweave.report.sections.budget import Budget, share
from traceweave.report.sections.findings import Findings
from traceweave.report.sections.inputs import Inputs
from traceweave.words import count, date_and_time, named, number, percent, plural

MOST_HOSTS = 3
"""Hosts that are named; of more the number is told."""

_HOURS = 24


class Fact(NamedTuple):
    """One thing known of the run."""

    label: str
    text: str
    note: str = ""
    """What `text` rests on, for a footnote."""


def run_name(inputs: Inputs) -> str:
    """Return the name of the folder that holds the input files; '' if they share none."""
    paths = [PurePath(source["path"]) for source in inputs.sources]
    try:
        return PurePath(os.path.commonpath([path.parent for path in paths])).name
    except ValueError:  # no files, or some relative and some absolute
        return ""


def facts(inputs: Inputs, budget: Budget, findings: Findings) -> tuple[Fact, ...]:
    """Say when and where the run was recorded, how much of it, and what it loses."""
    return tuple(_facts(inputs, budget, findings)) if inputs.ranks else ()


def by_the_day(part: float, ranks: int) -> str:
    """Say what a share of the time of ranks with a GPU each is in a day in which they run on."""
    return f"{number(part * ranks * _HOURS)} GPU-hours"


def _facts(inputs: Inputs, budget: Budget, findings: Findings) -> Iterator[Fact]:
    starts = [r["first_local_ns"] for r in inputs.ranks if r["first_local_ns"] is not None]
    if starts:
        yield Fact("Recorded", date_and_time(min(starts)))
    yield Fact("Hosts", _hosts(inputs))
    yield Fact("GPUs", _gpus(inputs))
    ranks = len(inputs.ranks)
    known = any(rank["world_size"] for rank in inputs.ranks)
    of = f" of {count(ranks + inputs.missing_ranks)}" if known else ""
    yield Fact("Ranks", count(ranks) + of)
    yield Fact("Steps", _steps(budget))
    # beside 'no finding would save much' it would only alarm
    if budget.rows and not inputs.is_cpu_run and findings.worst:
        yield _lost(budget)


def _hosts(inputs: Inputs) -> str:
    hosts = sorted({r["host"] for r in inputs.ranks if r["host"]})
    if not hosts:
        return "not named"
    return ", ".join(hosts) if len(hosts) <= MOST_HOSTS else count(len(hosts))


def _gpus(inputs: Inputs) -> str:
    if inputs.is_cpu_run:
        return "none recorded"
    models = Counter(
        r["gpu_name"] or "GPU, model not named" for r in inputs.ranks if r["timeline"] == "gpu"
    )
    return ", ".join(f"{count(many)} x {model}" for model, many in sorted(models.items()))


def _steps(budget: Budget) -> str:
    steps = budget.steps or sorted(budget.lengths)
    if not steps:
        return "none marked"
    return f"{count(len(steps))} ({named('step', steps)}){'' if budget.steps else ', not measured'}"


def _lost(budget: Budget) -> Fact:
    """Say what the ranks lose in a day in which they go on as in the steps recorded."""
    lost = 1 - (share(budget.total, "compute_ns") or 0)
    ranks = len(budget.ranks)
    return Fact(
        "Lost per day",
        by_the_day(lost, ranks),
        f"Lost is the time in which a GPU computes nothing, because it waits, transfers, copies or"
        f" idles: {percent(lost)} of the time recorded, for {plural(ranks, 'rank')} with a GPU"
        f" each, if they run all day as they did here. The findings say how much of it a fix"
        " would bring back.",
    )
