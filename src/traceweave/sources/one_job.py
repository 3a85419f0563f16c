"""Whether traces can be of one job, as far as they say.

A rank is one process, the world has one size, GPUs are of one model, software is of one version,
and all record at about the same time: clocks of hosts may be minutes apart. Windows of one job may
lie hours apart, if they have processes in common.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from traceweave.sources.model import WALL_CLOCK_NS, Process, Trace
from traceweave.words import long_time

MOST_CLOCK_ERROR_NS = 3600 * 1_000_000_000
"""Clocks of hosts that nobody sets are seconds to minutes apart: recordings further apart than this
were not made at the same time."""

LONGEST_JOB_NS = 100 * 86_400 * 1_000_000_000
"""Process ids recur: what has the same one longer apart than this is another process."""

_OF_A_HOST = frozenset({"CUDA driver version", "HIP driver version", "NVIDIA driver version"})
"""What may differ between the hosts of one job."""


Claim = tuple[int | None, str | None]
"""A rank, and the format of a record that the job keeps beside its traces; None: of a trace."""


def conflict(one: Trace, other: Trace) -> str | None:
    """Return why two traces cannot be of one job, whatever lies between; None if they can."""
    if (found := difference(one, other)) is not None:
        return found
    for process, twin in twins(one, other):
        if not _is_same_process((one, process), (other, twin)):
            return f"rank {process.rank} is claimed by two processes"
    return None


def difference(one: Trace, other: Trace) -> str | None:
    """Return what both say of something that a job has once, if it differs."""
    for what, values in one.stated.items():
        others = other.stated.get(what, values)
        if values == others or any(_alike(a, b) for a in values for b in others):
            continue
        if what not in _OF_A_HOST or not _on_different_hosts(one, other):
            return f"{what}s {', '.join(sorted(values))} and {', '.join(sorted(others))}"
    return None


def why_apart(traces: Sequence[Trace], others: Sequence[Trace]) -> str | None:
    """Return why two groups of traces are not of one job; None if they may be."""
    for one in traces:
        for other in others:
            if (reason := conflict(one, other)) is not None:
                return reason
    gap = _gap_ns(traces, others)
    if gap <= MOST_CLOCK_ERROR_NS:
        return None
    return f"recorded {long_time(gap)} apart, with no process in common"


def nothing_differs(traces: Sequence[Trace]) -> bool:
    """Tell in one pass what comparing every two would: that nothing speaks against one job.

    If not, they have to be compared.
    """
    holders: dict[Claim, tuple[Trace, Process]] = {}
    stated: dict[str, set[frozenset[str]]] = {}
    for claim in claims(traces):
        if not _is_same_process(holders.setdefault(claimed(*claim), claim), claim):
            return False
    for trace in traces:
        for what, values in trace.stated.items():
            stated.setdefault(what, set()).add(values)
    alike = all(len(values) == 1 for values in stated.values())
    return alike and _all_at_one_time(traces)


def twins(one: Trace, other: Trace) -> Iterator[tuple[Process, Process]]:
    """Yield the processes of two traces that claim the same rank; a record that the job keeps
    beside a profiler's trace claims nothing from it, nor from a record of another kind.
    """
    if _record(one) != _record(other):
        return
    for rank in sorted(one.by_rank.keys() & other.by_rank.keys()):
        yield one.by_rank[rank], other.by_rank[rank]


def claims(traces: Sequence[Trace]) -> Iterator[tuple[Trace, Process]]:
    """Yield every process that has a rank, with its trace."""
    return ((t, p) for t in traces for p in t.processes if p.rank is not None)


def claimed(trace: Trace, process: Process) -> Claim:
    """Return what only one process may have: a rank among traces, or among records of one kind."""
    return process.rank, _record(trace)


def _record(trace: Trace) -> str | None:
    return trace.format if trace.beside else None


def _is_same_process(one: tuple[Trace, Process], other: tuple[Trace, Process]) -> bool:
    (trace, process), (that, twin) = one, other
    if process is twin:
        return True
    if process.pid is None or process.pid != twin.pid:
        return False
    hosts = {process.host, twin.host} - {None}
    return len(hosts) <= 1 and _gap_ns([trace], [that]) <= LONGEST_JOB_NS


def _alike(version: str, other: str) -> bool:
    """Tell whether two versions are the same as far as both go: 2.28 and 2.28.9."""
    return all(a == b for a, b in zip(version.split("."), other.split("."), strict=False))


def _on_different_hosts(one: Trace, other: Trace) -> bool:
    hosts, others = ({process.host for process in t.processes} for t in (one, other))
    return None not in hosts | others and hosts.isdisjoint(others)


def _gap_ns(traces: Sequence[Trace], others: Sequence[Trace]) -> int:
    """Return how long nobody recorded between two groups, as far as a wall clock tells."""
    spans, theirs = (list(filter(None, map(_span, group))) for group in (traces, others))
    if not spans or not theirs:
        return 0
    begin, end = min(spans)[0], max(last for _, last in spans)
    return max(0, min(theirs)[0] - end, begin - max(last for _, last in theirs))


def _span(trace: Trace) -> tuple[int, int] | None:
    """Return first and last time of a recording that has those of a wall clock."""
    if trace.first_ns is None or trace.first_ns < WALL_CLOCK_NS:
        return None
    return trace.first_ns, trace.first_ns if trace.last_ns is None else trace.last_ns


def _all_at_one_time(traces: Sequence[Trace]) -> bool:
    """Tell whether no hours lie between recordings but those between windows of processes."""
    windows: list[set[int]] = []
    until = 0
    dated = [(span, trace) for trace in traces if (span := _span(trace)) is not None]
    for (first, last), trace in sorted(dated, key=lambda pair: pair[0]):
        if first > until + MOST_CLOCK_ERROR_NS:
            windows.append(set())
        windows[-1].update(trace.ranks)
        until = max(until, last)
    return all(one & other for one, other in pairwise(windows))
