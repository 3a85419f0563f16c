"""From the paths a user names to the traces of one run, every process with its rank."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from filecmp import cmp
from pathlib import Path

from traceweave.errors import InputError
from traceweave.sources import captured, flight_recorder, nccl_inspector, nccl_logs
from traceweave.sources.elsewhere import copied
from traceweave.sources.faults import BadFileError, fails_alone
from traceweave.sources.find import HEAD_BYTES, Broken, Candidate, PassedOver, find, format_by_name
from traceweave.sources.formats import Format
from traceweave.sources.model import Trace
from traceweave.sources.nsys import export_report, is_report
from traceweave.sources.ranks import RankRules, assign_ranks
from traceweave.sources.runs import are_distinct, choose_run, split_runs
from traceweave.sources.unpack import read_head
from traceweave.words import plural

_RECORDS: dict[str, object] = {
    "capture": captured,
    "flight_recorder": flight_recorder,
    "nccl_inspector": nccl_inspector,
    "nccl_log": nccl_logs,
}
"""Formats that no name of a file tells."""


@dataclass(frozen=True)
class Source:
    """One trace to load, with the format that reads it."""

    trace: Trace
    """Its path is the file as the user named it."""
    format: Format
    read_from: Path
    """Where the bytes are: the same file, its copy here, or what nsys exported from it."""

    @property
    def as_read(self) -> Trace:
        """The trace, its path where the bytes are."""
        return replace(self.trace, path=self.read_from)


@dataclass(frozen=True)
class Discovery:
    """What lies under the paths that a user named."""

    sources: tuple[Source, ...]
    """The traces of the chosen run, ordered by rank and time."""
    broken: tuple[Broken, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    notes: tuple[str, ...] = ()
    """What was assumed, for the user to check."""


def discover(
    paths: Sequence[str | Path],
    formats: Sequence[Format],
    scratch: Path,
    *,
    rules: RankRules | None = None,
    run: int | None = None,
    one_run: bool = False,
    trust_packed: bool = False,
) -> Discovery:
    """Find the traces under `paths`, give every process its rank, and settle on one run: the only
    one, number `run` of several, or all that lies there as `one_run`.

    `scratch` is a folder for what nsys exports and for copies, which must outlive the loading;
    `trust_packed` takes gzip files of any unpacked size. Raises InputError where it is ambiguous
    what belongs together, and where there is no trace at all.
    """
    found = find(paths, formats)
    passed_over = [item for item in found if isinstance(item, PassedOver)]
    broken = [item for item in found if isinstance(item, Broken)]
    candidates = [item for item in found if isinstance(item, Candidate)]
    rules = rules or RankRules()
    with ThreadPoolExecutor() as pool:
        probed = pool.map(
            lambda c: _alone(c.path, c.format, lambda: _probe(c, formats, scratch, trust_packed)),
            candidates,
        )
        sources = _keep(probed, broken)
        if sources and (run is not None or not _head_says_all(sources, rules)):
            timed = pool.map(
                lambda s: _alone(s.trace.path, s.format, lambda: _with_times(s, trust_packed)),
                sources,
            )
            sources = _keep(timed, broken)
    if not sources:
        raise InputError(_nothing_found(paths, broken, passed_over))
    return _settle(sources, broken, passed_over, rules, run, one_run)


def _keep(results: Iterable[Source | Broken], broken: list[Broken]) -> list[Source]:
    """Return the sources among the results, and put the others where they belong."""
    results = list(results)
    broken += [result for result in results if isinstance(result, Broken)]
    return [result for result in results if isinstance(result, Source)]


def _head_says_all(sources: Sequence[Source], rules: RankRules) -> bool:
    """Tell whether what files begin with is enough: no two claim a rank, nothing speaks against one
    run, and no ranks are missing that a file may hold beyond its beginning, merged into it.
    """
    traces, _ = assign_ranks([source.trace for source in sources], rules)
    ranks = {process.rank for trace in traces for process in trace.processes}
    sizes = {size for trace in traces for size in trace.world_sizes}
    return are_distinct(traces) and len(ranks) >= max(sizes, default=1)


def _settle(
    sources: list[Source],
    broken: list[Broken],
    passed_over: list[PassedOver],
    rules: RankRules,
    number: int | None,
    one_run: bool,
) -> Discovery:
    """Assign ranks, tell runs apart and keep the one that is asked for.

    What is of a job as a whole tells by its processes alone of which, so it goes with each run.
    """
    traces, notes = assign_ranks([source.trace for source in sources], rules)
    of_jobs = [trace for trace in traces if trace.beside and not trace.processes]
    runs = split_runs([trace for trace in traces if trace not in of_jobs] or of_jobs, one_run)
    chosen = choose_run(runs, number)
    by_path = {source.trace.path: source for source in sources}
    whole = [trace for trace in of_jobs if trace not in chosen.traces]
    kept = [replace(by_path[t.path], trace=t) for t in (*chosen.traces, *whole)]
    notes += [f"{t.path.name}: {note}" for t in chosen.traces for note in t.notes]
    passed_over += [
        PassedOver(trace.path, f"belongs to run {other.number}, not to run {chosen.number}")
        for other in runs
        if other is not chosen
        for trace in other.traces
    ]
    kept.sort(key=_order)
    notes += _note_copies([source.trace for source in kept])
    return Discovery(tuple(kept), tuple(broken), tuple(passed_over), tuple(notes))


def _note_copies(traces: Sequence[Trace]) -> Iterator[str]:
    """Say of how many ranks the trace is that of another one, byte for byte."""
    by_size: dict[int, list[Trace]] = {}
    copies: list[tuple[Trace, Trace]] = []
    for trace in traces:
        if not trace.by_rank or trace.beside or not trace.path.is_file():
            continue
        others = by_size.setdefault(trace.size_bytes, [])
        same = (other for other in others if cmp(other.path, trace.path, shallow=False))
        if (one := next(same, None)) is None:
            others.append(trace)
        else:
            copies.append((trace, one))
    if copies:
        trace, one = copies[0]
        yield (
            f"{plural(len(copies), 'file is a copy', 'files are copies')}, byte for byte"
            f" ({trace.path} of {one.path}): the same work counts as that of several ranks"
        )


def _order(source: Source) -> tuple[bool, list[int], int, Path]:
    """Order sources by rank and time, those of no rank last."""
    trace = source.trace
    return (not trace.ranks, trace.ranks, trace.first_ns or 0, trace.path)


def _alone(path: Path, format_: Format | None, look: Callable[[], Source]) -> Source | Broken:
    """Return a file as the source that a look at it makes, or why it cannot be one."""
    try:
        with fails_alone(path):
            return look()
    except BadFileError as error:
        named = next((name for name, module in _RECORDS.items() if format_ is module), None)
        return Broken(path, named or format_by_name(path.name), error.message)


def _probe(
    candidate: Candidate, formats: Sequence[Format], scratch: Path, trust_packed: bool
) -> Source:
    format_, read_from = candidate.format, candidate.path
    if format_ is None:
        format_, read_from = _brought(candidate.path, formats, scratch)
    trace = format_.probe(read_from, trust_packed, False)
    if read_from != candidate.path:
        trace = replace(trace, size_bytes=candidate.path.stat().st_size)
    return Source(replace(trace, path=candidate.path), format_, read_from)


def _with_times(source: Source, trust_packed: bool) -> Source:
    """Return the source with its time range and all else that the whole of a Kineto file tells."""
    if source.trace.last_ns is not None:
        return source
    whole = source.format.probe(source.read_from, trust_packed, True)
    named = replace(whole, path=source.trace.path, size_bytes=source.trace.size_bytes)
    return replace(source, trace=named)


def _brought(path: Path, formats: Sequence[Format], scratch: Path) -> tuple[Format, Path]:
    """Export an nsys report, or copy a file that is elsewhere, to a folder of its own in `scratch`:
    equal names may come from different folders.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    export = export_report(path, folder) if is_report(path) else copied(path, folder)
    head = b"" if export.is_dir() else read_head(export, HEAD_BYTES)
    for format_ in formats:
        if format_.recognize(export, head):
            return format_, export
    raise InputError(f"{path}: has no tables of an nsys export")


def _nothing_found(
    paths: Sequence[str | Path], broken: Sequence[Broken], passed_over: Sequence[PassedOver]
) -> str:
    names = ", ".join(str(path) for path in paths)
    reasons = [f"{b.path.name}: {b.reason}" for b in broken]
    reasons += [f"{p.path.name}: {p.reason}" for p in passed_over]
    if not reasons:
        return f"{names}: no files there; name a folder with the traces of all ranks"
    more = f" and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return (
        f"{names}: no trace that can be read ({'; '.join(reasons[:3])}{more}); give PyTorch"
        " Profiler JSON (.json, .json.gz), nsys reports and exports (.nsys-rep, .sqlite), flight"
        " recorder dumps or NCCL's logs"
    )
