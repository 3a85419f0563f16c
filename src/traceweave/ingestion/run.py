"""The ingest, from paths to a database."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb

from traceweave.errors import TraceweaveError, UsageError
from traceweave.ingestion.first_steps import first_steps
from traceweave.ingestion.load import Outcome, Progress, Silent, as_measured, load_all
from traceweave.ingestion.record import (
    note_missing_ranks,
    note_ranks_beyond_the_job,
    note_ranks_without_gpu_work,
    record,
)
from traceweave.ingestion.recording import judge_recording, leave_out_unknown
from traceweave.ingestion.repeated_steps import number_apart
from traceweave.ingestion.result import IngestResult, SourceResult
from traceweave.ingestion.room import fitting_jobs, is_limited
from traceweave.ingestion.sharded import load_into, loading, number_shards, split_known
from traceweave.locations import is_elsewhere, shown
from traceweave.places import place_of
from traceweave.sources.discover import Discovery, Source, discover
from traceweave.sources.find import PassedOver
from traceweave.sources.formats import Format, known_formats
from traceweave.sources.join_records import join_nccl, join_records
from traceweave.sources.model import Trace
from traceweave.sources.one_job import nothing_differs
from traceweave.sources.ranks import RankRules, compile_rank_pattern
from traceweave.sources.runs import choose_run, split_runs
from traceweave.store.database import first_line
from traceweave.store.draft import Draft, drafting
from traceweave.store.folder import FolderDraft, drafting_folder, is_folder_name
from traceweave.store.manifest import size_of_run
from traceweave.words import named, shortened

if TYPE_CHECKING:
    from traceweave.weave import WeaveSummary

FirstLook = Callable[[Sequence[int], Path], None]
"""Called with the numbers of the first steps, and a database that has these alone."""

_RANGE_NAMES = """
SELECT name FROM base.host_ops WHERE kind IN ('annotation', 'nvtx')
GROUP BY name ORDER BY count(*) DESC, name LIMIT 5
"""
_RANGES_THAT_MATCH = """
SELECT name FROM base.host_ops
WHERE kind IN ('annotation', 'nvtx') AND duration_ns > 0 AND regexp_matches(name, $1)
ORDER BY start_local_ns LIMIT 1
"""


def ingest(
    paths: str | Path | Sequence[str | Path],
    output: str | Path,
    *,
    ranks: Mapping[str, int | Sequence[int]] | None = None,
    rank_from: str | None = None,
    run: int | None = None,
    one_run: bool = False,
    trust_packed: bool = False,
    step_range: str | None = None,
    jobs: int | None = None,
    add: bool = False,
    dask: str | None = None,
    progress: Progress | None = None,
    formats: Sequence[Format] | None = None,
    first_look: FirstLook | None = None,
) -> IngestResult:
    """Read the traces under `paths` (files, folders, globs) into the run `output`: a database file,
    or a folder if its name ends in .tw.

    `ranks` gives files (by name or end of path) their rank, `rank_from` is a regular expression
    whose first group in the path is the rank, `run` chooses among several runs, `one_run` says that
    all that lies there is one, `trust_packed` takes gzip files that unpack to more than 200 times
    their size and 1 GiB, `step_range` is a regular expression (RE2) of the names of the ranges that
    are training steps, numbered by the last number in what it matches or else counted; `jobs` is
    the number of files read at a time (default: all cores). `add` puts what is new into the run
    folder that is there; ranks that it has are replaced. `dask` loads a run folder on the workers
    of a Dask cluster: 'local' (`jobs` processes on this machine), the address of a scheduler, its
    file, or 'auto' (what DASK_SCHEDULER_ADDRESS says, else local). A file that cannot be read is
    reported in the result and in the tables `sources` and `ingest_issues`. Of a long run whose
    traces mark their steps, `first_look` is called with the numbers of the first, and a database
    of these alone that is gone afterwards, before the rest is read. The old run, if any, is
    replaced at the very end. Raises InputError if nothing can be read or it is ambiguous,
    UsageError for a wrong expression, ResourceError if memory or threads run out.
    """
    began = time.monotonic()
    _check_options(jobs, run, one_run, step_range)
    _check_output(output, add=add, dask=dask)
    rules = _rules(ranks, rank_from)
    jobs = fitting_jobs(jobs)
    progress = progress or Silent()
    known: tuple[PassedOver, ...] = ()
    with _drafting(output, jobs, progress, keep=add) as draft:
        progress.stage("looking at the files")
        found = discover(
            [paths] if isinstance(paths, str | Path) else list(paths),
            formats or known_formats(),
            draft.scratch,
            rules=rules,
            run=run,
            one_run=one_run,
            trust_packed=trust_packed,
        )
        if add:
            found, known = split_known(draft.con, found)
        sources = [replace(s, trace=replace(s.trace, step_range=step_range)) for s in found.sources]
        found = replace(found, sources=tuple(sources))
        if first_look is not None and not (add or dask or step_range or is_limited()):
            _look_first(found, draft.scratch, jobs, progress, first_look)
        outcomes = _load(draft, sources, dask, jobs, progress)
        if step_range is not None:
            _check_steps(draft.con, step_range)
        told = _check_one_run(as_measured(draft.con, outcomes), run is not None, one_run)
        found = replace(found, notes=(*found.notes, *told))
        woven = _weave(draft, found, outcomes, progress, one_run=one_run, added=add)
        progress.stage("writing the database")
    return IngestResult(
        database=Path(output),
        sources=woven.sources,
        passed_over=(*found.passed_over, *known),
        notes=woven.notes,
        recording=woven.recording,
        weave=woven.summary,
        size_bytes=size_of_run(place_of(output)),
        seconds=time.monotonic() - began,
    )


class _Woven(NamedTuple):
    """What became of a run whose files are loaded."""

    sources: tuple[SourceResult, ...]
    notes: tuple[str, ...]
    recording: tuple[str, ...]
    summary: WeaveSummary


def _weave(
    draft: Draft | FolderDraft,
    found: Discovery,
    outcomes: Sequence[Outcome],
    progress: Progress,
    *,
    one_run: bool = False,
    added: bool = False,
) -> _Woven:
    """Make one run of what was loaded: records joined, collectives matched, clocks fitted."""
    from traceweave.weave import weave  # imports SciPy: not for those who only ask

    con = draft.con
    notes = (
        *found.notes,
        *note_ranks_beyond_the_job(con),
        *note_ranks_without_gpu_work(con),
        *join_records(con),
        *join_nccl(con),
    )
    leave_out_unknown(con, outcomes)
    results = record(con, replace(found, notes=notes), outcomes)
    numbered = number_apart(con, one_run, added=added)
    if isinstance(draft, FolderDraft):
        number_shards(draft, numbered)
    progress.stage("matching collectives, fitting clocks")
    summary = weave(con)
    recording = judge_recording(con)
    con.execute("ANALYZE")
    # not kept in the run: ranks may be added
    return _Woven(results, (*notes, *note_missing_ranks(con)), recording, summary)


def _look_first(
    found: Discovery, scratch: Path, jobs: int, progress: Progress, look: FirstLook
) -> None:
    """Have the first steps of every rank looked at, if all the rest takes long.

    What is wrong with a file is told when all of it is read.
    """
    database = scratch / "first.duckdb"
    with suppress(TraceweaveError, OSError):
        if (beginning := first_steps(found.sources, jobs)) is None:
            return
        steps, early = beginning
        progress.stage(f"reading {named('step', steps)}, for a first look")
        with drafting(database, jobs) as draft:
            outcomes = load_all(draft.con, dict(enumerate(early)), jobs, Silent())
            _weave(draft, replace(found, sources=tuple(early)), outcomes, progress)
        look(steps, database)
        database.unlink()


def _check_options(
    jobs: int | None, run: int | None, one_run: bool, step_range: str | None
) -> None:
    if jobs is not None and jobs < 1:
        raise UsageError(f"jobs must be at least 1, not {jobs}")
    if one_run and run is not None:
        raise UsageError("--run chooses one of several runs, --one-run says there is one: not both")
    if step_range is not None:
        _check_expression(step_range)


def _check_expression(step_range: str) -> None:
    with duckdb.connect() as con:
        try:
            con.execute("SELECT regexp_matches('', $1)", [step_range]).fetchall()
        except duckdb.Error as error:
            reason = first_line(error)
            raise UsageError(
                f"--step-range {step_range!r}: not a regular expression: {reason}"
            ) from error


def _check_steps(con: duckdb.DuckDBPyConnection, step_range: str) -> None:
    """Raise UsageError, with names that there are, if an expression matches none of the ranges."""
    if con.execute("SELECT 1 FROM base.steps LIMIT 1").fetchall():
        return
    names = [name for (name,) in con.execute(_RANGE_NAMES).fetchall()]
    matching = con.execute(_RANGES_THAT_MATCH, [step_range]).fetchall()
    if matching:
        [(example,)] = matching
        raise UsageError(
            f"--step-range {step_range!r}: ranges like {shortened(example)!r} launch nothing that"
            " the GPU runs: name ranges around the work of a step"
        )
    listed = ", ".join(repr(shortened(name)) for name in names)
    there = f"there are {listed} and others" if listed else "no trace has any"
    raise UsageError(
        f"--step-range {step_range!r}: matches no annotation and no NVTX range; {there}"
    )


def _check_output(output: str | Path, *, add: bool, dask: str | None) -> None:
    """Raise UsageError if what is asked for takes a run folder, and `output` is none."""
    if is_folder_name(output):
        return
    if add or dask is not None:
        what = "Dask writes run folders" if dask else "only a run folder can be added to"
        raise UsageError(f"{output}: {what}; name one that ends in .tw")
    if is_elsewhere(output):
        raise UsageError(f"{shown(output)}: only run folders can be there; name one with .tw")


def _drafting(
    output: str | Path, jobs: int, progress: Progress, *, keep: bool
) -> AbstractContextManager[Draft | FolderDraft]:
    if is_folder_name(output):
        text = "waiting for another program that changes the run"
        return drafting_folder(
            place_of(output), jobs, keep=keep, waiting=lambda: progress.stage(text)
        )
    return drafting(Path(output), jobs)


def _load(
    draft: Draft | FolderDraft,
    sources: Sequence[Source],
    dask: str | None,
    jobs: int,
    progress: Progress,
) -> list[Outcome]:
    progress.begin([(source.trace.path, source.trace.size_bytes) for source in sources])
    if isinstance(draft, FolderDraft):
        with loading(dask, jobs, draft.scratch) as loader:
            return load_into(draft, sources, loader, progress)
    return load_all(draft.con, dict(enumerate(sources)), jobs, progress)


def _check_one_run(traces: Sequence[Trace], chosen: bool, said: bool) -> tuple[str, ...]:
    """Tell runs apart with the times of the events, which the head of a file does not always tell.

    Returns a note if they are one because the user `said` so. Raises InputError if they are not,
    and the user has not `chosen` a run.
    """
    choose_run(split_runs(traces, said or chosen), None)
    if not said or nothing_differs(traces):
        return ()
    return ("read as one run (--one-run), although times, GPUs, versions or processes differ",)


def _rules(ranks: Mapping[str, int | Sequence[int]] | None, rank_from: str | None) -> RankRules:
    by_file = {
        name: (given,) if isinstance(given, int) else tuple(given)
        for name, given in (ranks or {}).items()
    }
    return RankRules(by_file, compile_rank_pattern(rank_from) if rank_from else None)
