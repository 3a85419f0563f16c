"""traceweave ingest: traces in, one database out."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from traceweave import words
from traceweave.cli.cells import printable
from traceweave.cli.colour import painter
from traceweave.cli.layout import plain
from traceweave.cli.options import example, on_dask
from traceweave.errors import DatabaseError, UsageError
from traceweave.locations import is_elsewhere, shown
from traceweave.streams import tell

if TYPE_CHECKING:
    from traceweave.explorer.opening import Opening
    from traceweave.ingestion import IngestResult, Progress
    from traceweave.sources.find import PassedOver

PARTLY_LOADED = 3
_THERE = """
SELECT any_value(value), (SELECT list(path) FROM sources)
FROM meta WHERE name = 'ingested_at_utc'
"""
MOST_ALIKE = 3
MOST_OF_A_PATH = 200
"""Files alike that are named one by one."""


@click.command(
    short_help="Read the traces of every rank into one database.",
    epilog=example(
        "traceweave ingest traces/ -o run.duckdb",
        "traceweave ingest 'node*/*.json.gz' -o run.duckdb --rank-from 'gpu(\\d+)'",
        "traceweave ingest a.json b.json -o run.duckdb --rank a.json=0 --rank b.json=1",
        "traceweave ingest traces/ -o run.tw --dask",
        "traceweave ingest reports/ -o run.duckdb --step-range 'global_batch (\\d+)'",
    ),
)
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The database; required. A traceweave database of this name is replaced, at the very end."
    " A name that ends in .tw: a run folder, for hundreds of ranks or more.",
)
@click.option(
    "--rank",
    "ranks",
    multiple=True,
    metavar="FILE=N",
    help="Say which rank a file is of (name or end of path; FILE=0,1 or FILE=4-7 for a report of"
    " several processes). Overrides everything; may be repeated.",
)
@click.option(
    "--rank-from",
    metavar="REGEX",
    help="The first group of this regular expression in the path is the rank.",
)
@click.option(
    "--step-range",
    metavar="REGEX",
    help="The ranges (NVTX or annotations) that are training steps, by name. The last number in"
    " what it matches is the step's; without one they are counted. It is an error if none matches."
    " Default: ProfilerStep#N, else batches of vLLM and SGLang, else ranges like 'step N',"
    " 'train_step N', 'iteration N', 'iter_N', else calls of the model, else what repeats.",
)
@click.option(
    "--trust-packed",
    is_flag=True,
    help="Also read gzip files that unpack to more than 200 times their size, as bombs do.",
)
@click.option("--run", type=click.IntRange(min=1), help="Which run, if the input has several.")
@click.option(
    "--one-run",
    is_flag=True,
    help="All files are of one run, although their times, GPUs, versions or world sizes differ;"
    " steps that a rank has in several files are numbered on.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    help="Files to read at a time; default: one per core.",
)
@click.option(
    "--add",
    is_flag=True,
    help="Add to the run folder that is there; ranks that it has already are replaced.",
)
@click.option(
    "--replace",
    "replaces",
    is_flag=True,
    help="Replace the run that is there, whatever it was made of; without it, only one of the same"
    " traces is.",
)
@on_dask("Load a run folder on Dask's workers", "job")
@click.option(
    "--verdict/--no-verdict",
    default=True,
    help="Work out what health, findings and fixes say, keep it in the database, and print the"
    " worst of it; of a long run, print that of the first steps before the rest is read.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors and warnings only.")
@click.option("-v", "--verbose", is_flag=True, help="List every file that is passed over.")
@click.pass_context
def ingest(
    context: click.Context,
    paths: tuple[str, ...],
    output: Path | None,
    ranks: tuple[str, ...],
    rank_from: str | None,
    step_range: str | None,
    trust_packed: bool,
    run: int | None,
    one_run: bool,
    jobs: int | None,
    add: bool,
    replaces: bool,
    dask: str | None,
    verdict: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Read the traces of every rank under PATHS (files, folders, globs) into one database.

    Kineto JSON (also .json.gz), nsys exports (SQLite, or folders of Parquet or Arrow tables),
    flight recorder dumps, NCCL's logs, NCCL Inspector's files and what traceweave.capture leaves
    beside nsys are found by their content. Exit code 3 if a trace could not be read to its end; the
    others are loaded anyway. Nothing is loaded of a folder with traces of several runs.
    """
    target = output or _no_output(paths)

    from traceweave.cli.progress import progress_bars
    from traceweave.cli.verdict import first_look, say_verdict

    with progress_bars(quiet=quiet) as bars:
        say = tell if bars is None else bars.say
        result, replaced = _read(
            paths,
            target,
            bars,
            replaces=replaces,
            ranks=dict(_rank(text) for text in ranks),
            rank_from=rank_from,
            run=run,
            one_run=one_run,
            step_range=step_range,
            trust_packed=trust_packed,
            jobs=jobs,
            add=add,
            dask=dask,
            first_look=(
                partial(first_look, target, say, painter(sys.stderr))
                if verdict and not quiet
                else None
            ),
        )
    summarize(result, replaced, quiet=quiet, verbose=verbose)  # before the verdict: it takes time
    if verdict:
        say_verdict(target, quiet=quiet)
    if not result.ok:
        context.exit(PARTLY_LOADED)


def read_and_tell(traces: str, target: Path, progress: Opening) -> None:
    """Do what `ingest traces -o target` does, but for its verdict in words."""
    from traceweave.cli.verdict import first_look, keep_verdict

    look = partial(first_look, target, progress.say, plain)
    summarize(*_read([traces], target, progress, first_look=look))
    progress.stage("working out the verdict")
    keep_verdict(target)


def _read(
    paths: Sequence[str],
    target: Path,
    progress: Progress | None,
    *,
    replaces: bool = False,
    add: bool = False,
    jobs: int | None = None,
    **how: Any,
) -> tuple[IngestResult, str | None]:
    """Read traces into a database; return what became of it, and what was there before."""
    from traceweave.ingestion import ingest as read
    from traceweave.ingestion.room import fitting_jobs

    jobs = fitting_jobs(jobs)  # first: opening what is there crashes DuckDB if memory is too little
    replaced = None if add else _what_is_there(target, None if replaces else paths)
    return read(paths, target, progress=progress, jobs=jobs, add=add, **how), replaced


def _no_output(paths: Sequence[str]) -> NoReturn:
    *traces, last = paths
    if not traces or not last.endswith((".duckdb", ".db")):
        traces, last = [*paths], "run.duckdb"
    few = shlex.join(traces) if len(traces) <= MOST_ALIKE else f"{shlex.quote(traces[0])} ..."
    line = f"traceweave ingest {few} -o {shlex.quote(last)}"
    raise UsageError(f"name the database to write with -o; type: {line}")


def _what_is_there(output: Path, paths: Sequence[str] | None) -> str | None:
    """Name the database that ingest is going to replace; None if there is none.

    Raises UsageError if it holds the run of other traces than `paths`, unless these are None.
    """
    import duckdb

    from traceweave.places import place_of
    from traceweave.store.database import open_database
    from traceweave.store.manifest import is_run_folder

    place = place_of(output)
    if place.size() is None and not is_run_folder(place):
        return None
    try:
        with open_database(output) as con:
            row = con.execute(_THERE).fetchone()
    except (DatabaseError, duckdb.Error):  # of another version; what is no database is refused
        return "the database that was there"
    moment, files = row if row is not None else (None, None)
    of = "an unknown day" if moment is None else words.date_and_time(moment)
    there = f"the database of {of}, {words.plural(len(files or ()), 'source')}"
    if paths and files and not any(_is_under(file, path) for file in files for path in paths):
        first = words.shortened(printable(shown(files[0])), MOST_OF_A_PATH)
        raise UsageError(
            f"{shown(output)} holds another run: {there}, such as {first}; name another file with"
            " -o, or give --replace"
        )
    return there


def _is_under(file: str, path: str) -> bool:
    """Whether a file that was read is one that a file, folder or glob may name."""
    if is_elsewhere(path):
        return file.startswith(re.split(r"[*?\[]", shown(path))[0])
    file, path = os.path.realpath(file), os.path.realpath(path)
    is_in = f"{file}/".startswith(f"{path}/")
    return is_in or fnmatch(file, path) or fnmatch(file, f"{path}/*")


def summarize(
    result: IngestResult,
    replaced: str | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Say on stderr what was read, what was not, what was assumed, and what was there before."""
    from traceweave.cli.output import note

    for source in result.sources:
        if source.status != "ok":
            note(f"{source.status}: {source.path}: {source.message}")
    if warning := _unmatched(result):
        note(warning)
    for text in result.recording:
        note(f"recording: {text}")
    if quiet:
        return
    for line in _passed_over(result.passed_over, verbose=verbose):
        note(line)
    for text in result.notes:
        note(f"note: {text}")
    if not result.recording and any(source.ranks for source in result.sources):
        note("recording: fit to judge")
    if replaced is not None:
        note(f"replaced {replaced}")
    loaded = [source for source in result.sources if source.status != "failed"]
    numbers = sorted({rank for source in loaded for rank in source.ranks})
    events = words.plural(sum(source.events_stored for source in loaded), "event")
    files = words.plural(len(loaded), "file")
    read = words.size(sum(source.size_bytes for source in loaded))
    written = words.size(result.size_bytes)
    took = words.duration(result.seconds * 1e9)
    note(
        f"{shown(result.database)}: {words.name_ranks(numbers)} from {files} of {read},"
        f" {events}, {written} in {took}"
    )


def _unmatched(result: IngestResult) -> str:
    """Say that most collectives of several ranks found no partner; '' if that is not so."""
    weave = result.weave
    left = sum(weave.unmatched.values())
    if (
        len({rank for source in result.sources for rank in source.ranks}) < 2
        or 2 * left <= weave.calls
    ):
        return ""
    reason = max(weave.unmatched, key=lambda reason: weave.unmatched[reason])
    which = "none" if left == weave.calls else f"only {words.count(weave.calls - left)}"
    return (
        f"WARNING: {which} of {words.plural(weave.calls, 'collective call')} could be matched over"
        f" the ranks ({reason}): waiting is not known; see traceweave analyze matching"
    )


def _passed_over(items: Sequence[PassedOver], *, verbose: bool) -> Iterator[str]:
    """Yield one line per file, or one per reason where many files share it."""
    by_reason: dict[str, list[PassedOver]] = {}
    for item in items:
        by_reason.setdefault(item.reason, []).append(item)
    for reason, alike in by_reason.items():
        if verbose or len(alike) <= MOST_ALIKE:
            yield from (f"passed over: {item.path}: {reason}" for item in alike)
        else:
            many = words.plural(len(alike), "file")
            yield f"passed over: {many} like {alike[0].path}: {reason}; -v lists them"


def _rank(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse FILE=N, FILE=0,1 or FILE=4-7."""
    name, _, numbers = text.rpartition("=")
    if not name or not re.fullmatch(r"\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*", numbers):
        raise click.BadParameter(f"{text!r} is not FILE=N", param_hint="--rank")
    ranks: list[int] = []
    for part in numbers.split(","):
        first, _, last = part.partition("-")
        ranks.extend(range(int(first), int(last or first) + 1))
    return name, tuple(ranks)
