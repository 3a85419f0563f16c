"""Which rank a trace is of: the user says it, or the trace, or its name; in this order."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from traceweave.errors import InputError, UsageError
from traceweave.sources.model import Trace
from traceweave.words import folded, name_ranks, plural

RANK_IN_NAME = re.compile(
    r"(?<![a-z0-9])(?<!local)(?<!local[_\-.])(?:global[_\-.]?)?(?:rank|worker|procid)"
    r"[_\-.= ]?0*(\d{1,6})(?!\d)"
    r"|(?<![a-z0-9])r0*(\d{1,6})(?![a-z0-9])",
    re.IGNORECASE,
)
"""rank_3, rank3.json, rank-34, mtia_rank_0, worker3_, procid3, r3; never local_rank3 or a pid."""

NOT_A_RANK = re.compile(
    r"(step|iter|iteration|epoch|run|job|jobid|window|cycle|trial|attempt|node|nodeid|host|"
    r"local[_\-. ]?rank|gpu|device|cuda|torch|batch|seed|exp|version|v|p|pid)[_\-. =]?$",
    re.IGNORECASE,
)
"""What before a number says that it counts something else."""

NUMBER_AT_END = re.compile(r"0*(\d{1,6})(?:\.(?:json|pickle|pkl|pt|bin|trace))*$", re.IGNORECASE)
"""The rank in the name of a record that torch writes: PREFIX and rank, as in _dump_3."""

ORDER = "order of"
"""How the evidence begins that only numbers the processes of one report."""


@dataclass(frozen=True)
class RankRules:
    """What the user said about ranks."""

    by_file: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Ranks of the processes of a file, which is named by its name or the end of its path."""
    pattern: re.Pattern[str] | None = None
    """Its first group in the path is the rank."""


def compile_rank_pattern(text: str) -> re.Pattern[str]:
    """Compile a user's regular expression for ranks. Raises UsageError if it cannot serve."""
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise UsageError(f"--rank-from {text!r}: not a regular expression: {error}") from error
    if pattern.groups < 1:
        raise UsageError(
            f"--rank-from {text!r}: has no group; put the digits in one, like 'node\\d+_(\\d+)'"
        )
    return pattern


def assign_ranks(traces: Sequence[Trace], rules: RankRules) -> tuple[list[Trace], list[str]]:
    """Return the traces with a rank for every process that is one, and notes on what was assumed.

    A trace without processes has none, and none is asked for. Raises InputError if another one
    among several has no rank, naming the files and the way out.
    """
    notes: list[str] = []
    _check_all_used(rules, traces)
    nobodys = [trace for trace in traces if not trace.processes]
    told = [_by_user(trace, rules, notes) for trace in traces if trace.processes]
    beside = [trace for trace in told if trace.beside]
    beside = [_by_end_of_name(trace, below) for trace, below in _with_names(beside)]
    assigned = [trace for trace in told if not trace.beside]
    if len(assigned) > 1:
        assigned = [_without_guess(trace) for trace in assigned]
    assigned = [_by_name(trace, below, notes) for trace, below in _with_names(assigned)]
    assigned = _by_number(assigned, nobodys, notes)
    assigned = _lone_trace(assigned, notes)
    notes += [
        f"{trace.path.name}: {name_ranks(trace.ranks)} taken from the"
        f" {trace.processes[0].rank_source}; --rank {trace.path.name}=N,... overrides it"
        for trace in assigned
        if any((p.rank_source or "").startswith(ORDER) for p in trace.processes)
    ]
    lacking = [trace for trace in [*assigned, *beside] if not trace.by_rank]
    if lacking:
        missing = [trace.path.name for trace in lacking]
        known = "".join(f"{missing[0]}: {note}; " for note in lacking[0].notes)
        raise InputError(
            f"{known}no rank in {_listing(missing)}: neither the trace nor its name has one; give"
            f" it with --rank {missing[0]}=N for each file, or --rank-from REGEX whose first group"
            " in the path is the rank"
        )
    return assigned + beside + nobodys, notes


def rank_in_name(names: Sequence[str]) -> int | None:
    """Return the rank that the first of these names (file first, then its folders) speaks of."""
    for name in names:
        found = {int(match[1] or match[2]) for match in RANK_IN_NAME.finditer(name)}
        if len(found) == 1:
            return found.pop()
        if found:
            return None
    return None


def _by_user(trace: Trace, rules: RankRules, notes: list[str]) -> Trace:
    for name, ranks in rules.by_file.items():
        if _is_named(trace.path, name):
            return _number(trace, ranks, "--rank")
    if rules.pattern is not None and (match := rules.pattern.search(trace.path.as_posix())):
        if match[1] is None or not match[1].isdecimal():
            raise InputError(
                f"{trace.path}: --rank-from finds {match[1]!r} there, which is not a number"
            )
        own = trace.ranks
        if own and own != [int(match[1])]:
            notes.append(
                f"{trace.path.name}: the trace itself says {name_ranks(own)},"
                f" --rank-from says {match[1]}, which is used"
            )
        return _number(trace, (int(match[1]),), "--rank-from")
    return trace


def _without_guess(trace: Trace) -> Trace:
    """Drop the rank of a report's only process if it rests on nothing but its being the first."""
    processes = trace.processes
    if len(processes) == 1 and (processes[0].rank_source or "").startswith(ORDER):
        return replace(trace, processes=(replace(processes[0], rank=None, rank_source=None),))
    return trace


def _number(trace: Trace, ranks: tuple[int, ...], source: str) -> Trace:
    processes = list(trace.by_rank.values()) or list(trace.processes)
    if len(ranks) != len(processes):
        raise InputError(
            f"{trace.path}: holds {plural(len(processes), 'process', 'processes')}, {source} gives"
            f" {plural(len(ranks), 'rank')};"
            f" give one each: --rank {trace.path.name}=0,1,..."
        )
    return trace.with_ranks(
        {process.key: (rank, source) for process, rank in zip(processes, ranks, strict=True)}
    )


def _is_named(path: Path, name: str) -> bool:
    end = PurePath(name).parts
    return path.parts[-len(end) :] == end or path.resolve() == Path(name).resolve()


def _check_all_used(rules: RankRules, traces: Sequence[Trace]) -> None:
    there = _listing([trace.path.name for trace in traces])
    for name in rules.by_file:
        if not any(_is_named(trace.path, name) for trace in traces):
            raise InputError(f"--rank {name}=...: no trace of this name here; there are {there}")
    pattern = rules.pattern
    if pattern and not any(pattern.search(trace.path.as_posix()) for trace in traces):
        raise InputError(f"--rank-from {pattern.pattern}: matches no path here; there are {there}")


def _with_names(traces: Sequence[Trace]) -> Iterator[tuple[Trace, tuple[str, ...]]]:
    """Pair each trace with the names that may tell its rank: its own, then its folders'.

    A folder that all traces lie in speaks of none of them; a trace alone has its folder's name.
    """
    if len(traces) == 1:
        yield traces[0], tuple(reversed(traces[0].path.parts[-3:]))
        return
    for trace, below in zip(traces, _below_common(traces), strict=True):
        yield trace, tuple(reversed(below.parts))


def _below_common(traces: Sequence[Trace]) -> list[PurePath]:
    full = [Path(os.path.abspath(trace.path)) for trace in traces]
    common = os.path.commonpath([path.parent for path in full]) if full else ""
    return [path.relative_to(common) for path in full]


def _by_name(trace: Trace, names: tuple[str, ...], notes: list[str]) -> Trace:
    # torch names files HOST_PID: r135128 and gpu-worker-12 are hosts there
    rank = rank_in_name([name.removeprefix(f"{trace.processes[0].host}_") for name in names])
    if rank is None:
        return trace
    if own := trace.ranks:
        if rank not in own and trace.processes[0].rank_source not in ("--rank", "--rank-from"):
            notes.append(
                f"{trace.path.name}: named as rank {rank}, but the trace itself says"
                f" {folded(own)} and is used; --rank overrides it"
            )
        return trace
    world_size = trace.processes[0].world_size
    if len(trace.processes) > 1 or (world_size is not None and rank >= world_size):
        return trace
    return trace.with_ranks({trace.processes[0].key: (rank, "file name")})


def _by_end_of_name(trace: Trace, names: tuple[str, ...]) -> Trace:
    """Return a record beside traces with the rank that its name says or ends with, or its folders
    say.
    """
    if trace.by_rank:
        return trace
    name, *folders = names
    rank = rank_in_name([name])
    match = NUMBER_AT_END.search(name)
    if rank is None and match is not None and not _goes_on(name[: match.start()]):
        rank = int(match[1])
    rank = rank_in_name(folders) if rank is None else rank
    named = {} if rank is None else {trace.processes[0].key: (rank, "file name")}
    return trace.with_ranks(named)


def _goes_on(before: str) -> bool:
    """Tell whether a number after this text goes on before it, or counts something else."""
    other = NOT_A_RANK.search(before)
    return before[-1:].isdigit() or (
        other is not None and not before[: other.start()][-1:].isalpha()  # the p of dump
    )


def _by_number(traces: list[Trace], nobodys: list[Trace], notes: list[str]) -> list[Trace]:
    """Number the traces by the one number that counts them all up, `nobodys` too, in otherwise
    equal names.
    """
    if len(traces) < 2 or any(t.by_rank or len(t.processes) != 1 for t in traces):
        return traces
    if len(_units(traces)) < len(traces):
        return traces  # windows of one process: the number counts them, not ranks
    numbers = counting_number([str(below) for below in _below_common([*traces, *nobodys])])
    sizes = set().union(*(trace.world_sizes for trace in traces))
    if numbers is None or any(max(numbers) >= size for size in sizes):
        return traces
    notes.append(
        "ranks are taken from the number in which the file names differ"
        f" ({traces[0].path.name} is rank {numbers[0]})"
    )
    return [
        trace.with_ranks({trace.processes[0].key: (number, "number in file name")})
        for trace, number in zip(traces, numbers, strict=False)
    ]


def counting_number(names: Sequence[str]) -> list[int] | None:
    """Return for each name the one number in it that numbers them all, or None.

    The names must be equal but for numbers, and the number must run from 0 to n - 1, or be
    zero-padded and different in each name. Two such numbers settle nothing.
    """
    parts = [re.split(r"(\d+)", name) for name in names]
    if len({tuple(part[::2]) for part in parts}) != 1:
        return None
    texts, columns = parts[0][::2], list(zip(*(part[1::2] for part in parts), strict=True))
    columns = [
        column
        for text, column in zip(texts, columns, strict=False)
        if len(set(column)) == len(column) and not NOT_A_RANK.search(text)
    ]
    numbered = [c for c in columns if sorted(map(int, c)) == list(range(len(c)))] or [
        c for c in columns if len({*map(len, c)}) == 1 and len(c[0]) <= 6 and any(_padded(c))
    ]
    return [int(number) for number in numbered[0]] if len(numbered) == 1 else None


def _padded(column: tuple[str, ...]) -> Iterator[bool]:
    return (len(number) > 1 and number.startswith("0") for number in column)


def _lone_trace(traces: list[Trace], notes: list[str]) -> list[Trace]:
    """Number the processes of a trace that is alone, from 0."""
    if any(trace.by_rank for trace in traces) or len(_units(traces)) != 1:
        return traces
    count = len(traces[0].processes)
    what = f"holds {count} processes: {name_ranks(range(count))}"
    what = "is taken as rank 0" if count == 1 else what
    notes.append(f"{traces[0].path.name}: no rank in the trace or its name; it {what}")
    return [
        trace.with_ranks({p.key: (i, "only trace") for i, p in enumerate(trace.processes)})
        for trace in traces
    ]


def _units(traces: Sequence[Trace]) -> set[tuple[object, ...]]:
    """Return one key per process that the traces may be of; windows of one process share theirs."""

    def key(trace: Trace) -> tuple[object, ...]:
        first = trace.processes[0]
        alone = len(trace.processes) == 1 and first.pid is not None
        return (trace.path.parent, first.host, first.pid) if alone else (trace.path,)

    return {key(trace) for trace in traces}


def _listing(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
