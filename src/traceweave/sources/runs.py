"""Telling runs apart: traces that cannot be of one job are never woven together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from os.path import abspath, commonpath, relpath

from traceweave.errors import InputError, UsageError
from traceweave.sources.model import Process, Trace
from traceweave.sources.one_job import (
    Claim,
    claimed,
    claims,
    conflict,
    difference,
    nothing_differs,
    twins,
    why_apart,
)
from traceweave.words import date_and_time, name_ranks

START_SPREAD_NS = 5_000_000_000
"""Windows no further apart than this began together: no job is launched again so soon."""


@dataclass(frozen=True)
class Run:
    """Traces that may be of one job."""

    number: int
    """From 1, in order of time."""
    traces: tuple[Trace, ...]

    @property
    def ranks(self) -> list[int]:
        """Ranks in it, ascending."""
        return sorted({rank for trace in self.traces for rank in trace.ranks})

    def describe(self, root: str) -> str:
        """Return one line: number, ranks, world size, start, files as they lie below `root`."""
        sizes = set().union(*(trace.world_sizes for trace in self.traces))
        world = f" of {sizes.pop()}" if len(sizes) == 1 else ""
        names = sorted(relpath(trace.path, root) for trace in self.traces)
        more = f" and {len(names) - 2} more" if len(names) > 2 else ""
        ranks = name_ranks(self.ranks) if self.ranks else "ranks unknown"
        return (
            f"run {self.number}: {ranks}{world}, started {_start(self.traces)},"
            f" {', '.join(names[:2])}{more}"
        )


def split_runs(traces: Sequence[Trace], one_run: bool = False) -> list[Run]:
    """Group traces into runs, earliest first; into one, if the user says that they are `one_run`.

    Raises InputError for two files that claim a rank for overlapping times.
    """
    _refuse_overlaps(traces, one_run)
    if one_run or nothing_differs(traces):
        return [Run(1, _in_order(traces))]
    components = _components(traces)
    runs: list[list[Trace]] = []
    for component in sorted(components, key=lambda group: min(map(_order, group))):
        for one, other in combinations(component, 2):
            if (reason := conflict(one, other)) is not None:
                raise InputError(
                    f"{one.path} and {other.path} cannot be of one run ({reason}), and their times"
                    " do not tell which other files go with which; give each run's files alone, or"
                    " say --one-run if they are one"
                )
        if runs and why_apart(runs[-1], component) is None:
            runs[-1].extend(component)
        else:
            runs.append(list(component))
    return [Run(i, _in_order(run)) for i, run in enumerate(runs, start=1)]


def are_distinct(traces: Sequence[Trace]) -> bool:
    """Tell whether no two claim a rank, and nothing known so far speaks against one run."""
    ranks = [claimed(*claim) for claim in claims(traces)]
    return len(set(ranks)) == len(ranks) and nothing_differs(traces)


def choose_run(runs: Sequence[Run], number: int | None) -> Run:
    """Return the run that the user asks for, or the only one.

    Raises InputError if there are several and none is asked for, UsageError for a wrong number.
    """
    if number is None and len(runs) == 1:
        return runs[0]
    root = commonpath([abspath(trace.path.parent) for run in runs for trace in run.traces])
    listing = [run.describe(root) for run in runs]
    if number is None:
        reason = why_apart(runs[0].traces, runs[1].traces)
        raise InputError(
            f"{len(runs)} runs lie here ({reason}), and they are never woven together; choose one"
            " with --run N, or say --one-run if they are one:",
            listing,
        )
    for run in runs:
        if run.number == number:
            return run
    raise UsageError(f"--run {number}: no such run; there are:", listing)


def _refuse_overlaps(traces: Sequence[Trace], one_run: bool) -> None:
    by_rank: dict[Claim, list[Trace]] = {}
    for trace, process in claims(sorted(traces, key=_order)):
        by_rank.setdefault(claimed(trace, process), []).append(trace)
    for (rank, _), claimants in by_rank.items():
        for one, other in combinations(claimants, 2):
            if _overlap(one, other) and (one_run or difference(one, other) is None):
                raise InputError(
                    f"{one.path} and {other.path} both claim rank {rank} for overlapping times;"
                    " keep one of them, or say who is who with"
                    f" --rank {other.path.name}=N or --rank-from REGEX"
                )


def _components(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group traces that belong together by time or process, transitively."""
    groups: list[list[Trace]] = []
    for trace in traces:
        linked = [group for group in groups if any(_linked(trace, other) for other in group)]
        groups = [group for group in groups if group not in linked]
        groups.append([trace, *(member for group in linked for member in group)])
    return groups


def _linked(one: Trace, other: Trace) -> bool:
    if conflict(one, other) is not None:
        return False
    if any(twins(one, other)):
        return True
    if one.first_ns is None or other.first_ns is None:
        return False
    return abs(one.first_ns - other.first_ns) <= START_SPREAD_NS or _overlap(one, other)


def _overlap(one: Trace, other: Trace) -> bool:
    if one.first_ns is None or other.first_ns is None:
        return False
    if one.last_ns is None or other.last_ns is None:
        return one.first_ns == other.first_ns
    return one.first_ns < other.last_ns and other.first_ns < one.last_ns


def _in_order(traces: Iterable[Trace]) -> tuple[Trace, ...]:
    """Return the traces of a run by time, those of a rank that has several counted."""
    ordered = sorted(traces, key=_order)
    several = Counter(claimed(*claim) for claim in claims(ordered))
    seen: Counter[Claim] = Counter()

    def counted(trace: Trace) -> Iterator[Process]:
        for process in trace.processes:
            claim = claimed(trace, process)
            if several[claim] > 1:
                process = replace(process, recording=seen[claim])
                seen[claim] += 1
            yield process

    return tuple(replace(trace, processes=tuple(counted(trace))) for trace in ordered)


def _order(trace: Trace) -> tuple[int, str]:
    return (trace.first_ns or 0, str(trace.path))


def _start(traces: Sequence[Trace]) -> str:
    starts = [trace.first_ns for trace in traces if trace.first_ns is not None]
    return date_and_time(min(starts)) if starts else "at an unknown time"
