"""What `import traceweave` does with runs: open, refit, verify, compare, check."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, overload

import duckdb
import pyarrow as pa

from traceweave import analyses
from traceweave.frames import Frames, check_frames
from traceweave.places import place_of
from traceweave.run import Run
from traceweave.store.database import open_database
from traceweave.store.draft import changing
from traceweave.store.folder import drafting_folder
from traceweave.store.manifest import check_hashes, is_run_folder, read_manifest
from traceweave.targets import FileKind, check_target, reading

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from traceweave.checks import CheckResult
    from traceweave.comparison import Comparison

    Annotations: TypeAlias = tuple[Literal["github", "gitlab"], str | Path]

__all__ = ["Run", "align", "check", "compare", "install_analyses", "keep_answers", "open", "verify"]

VERDICT = ("health", "findings", "fixes")
"""The analyses whose answers `ingest` keeps, with all that they start from."""


@overload
def open(
    path: str | Path, *, frames: Literal["pandas"] = "pandas", dask: str | None = None
) -> Run[pd.DataFrame]: ...
@overload
def open(
    path: str | Path, *, frames: Literal["polars"], dask: str | None = None
) -> Run[pl.DataFrame]: ...
@overload
def open(
    path: str | Path, *, frames: Literal["arrow"], dask: str | None = None
) -> Run[pa.Table]: ...
def open(path: str | Path, *, frames: Frames = "pandas", dask: str | None = None) -> Run[Any]:
    """Open a run, a database file or a run folder, read-only.

    Its answers are `frames` of pandas or polars, or Arrow tables. `dask` has workers answer what
    can be answered some ranks at a time: 'local' (one per core of this machine), the address of a
    scheduler, its file, or 'auto' for what DASK_SCHEDULER_ADDRESS says, else 'local'. Raises
    DatabaseError, UsageError for frames or workers that there are not.
    """
    check_frames(frames)
    run: Run[Any] = Run(Path(path), open_database(path), frames)
    if dask is not None:
        try:
            run.closing.enter_context(_answered_on_workers(run, dask))
        except BaseException:
            run.close()
            raise
    return run


@contextmanager
def _answered_on_workers(run: Run[Any], dask: str) -> Iterator[None]:
    from traceweave.analyses.on_workers import answer_on
    from traceweave.ingestion.workers import workers

    with (
        tempfile.TemporaryDirectory(prefix="traceweave-") as scratch,
        workers(dask, os.cpu_count() or 1, Path(scratch)) as found,
    ):
        answer_on(found, run.con, run.path)
        yield


def align(
    path: str | Path,
    *,
    reference_rank: int | None = None,
    same_host: bool = True,
    method: str = "ends",
) -> None:
    """Refit the clocks of a database, in place; a kill leaves the old fit or the new one.

    `reference_rank` is the rank whose clock is the common one (None: automatic), `same_host` fits
    ranks of one host together where the data agree; `method` 'ends' fits to the ends of
    collectives, 'wall clock' leaves every clock as it is. Raises DatabaseError, UsageError, or
    InputError if it cannot be written.
    """
    from traceweave import weave

    with _changing(path) as con:
        weave.align(con, reference_rank=reference_rank, same_host=same_host, method=method)


def install_analyses(path: str | Path) -> tuple[str, ...]:
    """Leave analyses in a database as table macros, for any client of DuckDB; return their names.

    They are those that need no Python: `FROM tails()`, `FROM kernels(rank := 3)`. A kill leaves
    the database as it was or with all of them. Raises DatabaseError, InputError if it cannot be
    written.
    """
    with _changing(path) as con:
        con.begin()
        for statement in analyses.create_statements():
            con.execute(statement)
        con.commit()
    return tuple(analysis.name for analysis in analyses.as_macros())


def keep_answers(path: str | Path) -> None:
    """Work out what `health`, `findings` and `fixes` say of a run, and what `compare` asks of its
    time, and keep it in the run with all that it starts from: asked with the usual values of their
    parameters, they only read it then.

    What is kept holds until the run is changed, by whatever. A kill leaves the run as it was.
    Raises DatabaseError, QueryError if an analysis cannot be computed, InputError if the run cannot
    be written.
    """
    with _writing(path) as con:
        analyses.keep_answers(con, _ask)


def _ask(con: duckdb.DuckDBPyConnection) -> None:
    """Ask what the verdict says, and what another run is compared with."""
    from traceweave.comparison.side import ask_budget

    for name in VERDICT:
        analyses.analysis_relation(con, name)
    ask_budget(con)


@contextmanager
def _changing(path: str | Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the database of a run for changing what it has of all ranks together; if it keeps
    answers, it keeps those of what it has become.
    """
    with _writing(path) as con:
        kept = analyses.keeps_answers(con)
        yield con
        if kept:
            analyses.keep_answers(con, _ask)


@contextmanager
def _writing(path: str | Path) -> Iterator[duckdb.DuckDBPyConnection]:
    place = place_of(path)
    if is_run_folder(place):
        with drafting_folder(place, os.cpu_count() or 1, keep=True) as draft:
            yield draft.con
    else:
        with changing(Path(path)) as con:
            yield con


def verify(path: str | Path) -> int:
    """Read every file of a run folder and compare its hash with the manifest's.

    Returns how many bytes that were. Raises DatabaseError, also where something is damaged.
    """
    folder = place_of(path)
    manifest = read_manifest(folder)
    check_hashes(folder, manifest.parts)
    return manifest.size_bytes


def compare(
    base: str | Path | Run,
    new: str | Path | Run,
    *,
    warmup: int = 1,
    alpha: float = 0.05,
    smallest_change: float = 0.01,
) -> Comparison:
    """Compare a new run with a base: whether that can be done, step time, kernels, collectives.

    Runs are databases or open runs. `warmup` first steps of either do not count, `alpha` is the
    level of significance. A change of the step below `smallest_change` of it does not count, nor
    one of an item below a tenth of that. Raises DatabaseError, InputError for a run without any
    work, UsageError for values that make no sense.
    """
    from traceweave.comparison import compare_runs

    with ExitStack() as stack:
        runs = [
            run if isinstance(run, Run) else stack.enter_context(open(run)) for run in (base, new)
        ]
        names = (runs[0].path.name, runs[1].path.name)
        if names[0] == names[1]:
            names = (str(runs[0].path), str(runs[1].path))
        return compare_runs(
            runs[0].con,
            runs[1].con,
            names=names,
            warmup=warmup,
            alpha=alpha,
            smallest_change=smallest_change,
        )


def check(
    run: str | Path | Run,
    rules: str | Path,
    *,
    baseline: str | Path | Run | Sequence[str | Path | Run] | None = None,
    accept_differences: bool = False,
    junit: str | Path | None = None,
    annotations: Annotations | Sequence[Annotations] | None = None,
) -> CheckResult:
    """Check a run against the rules of a TOML file; without a `baseline`, what needs it is skipped.

    Several baselines, recordings of the same code, tell the noise that a change has to exceed. Runs
    that are not comparable fail what compares them, unless `accept_differences` says that they are
    meant to differ, as in a study of world sizes. The outcomes are also written as JUnit XML into
    the file `junit`, and as `annotations` of a service into that file, or of several into theirs.
    Raises UsageError for a rules file that is wrong and for an output that would replace something
    else, QueryError for a metric that cannot be computed, DatabaseError for a run that cannot be
    opened.
    """
    from traceweave.checks import (
        check_annotations,
        check_run,
        read_rules,
        write_annotations,
        write_junit,
    )

    wanted = read_rules(Path(rules))
    given = [baseline] if isinstance(baseline, str | Path | Run) else baseline or ()
    read = [one.path if isinstance(one, Run) else one for one in (run, *given)]
    with ExitStack() as stack:
        stack.enter_context(reading(lambda: (rules, *read)))
        if junit is not None:
            check_target(junit, FileKind.JUNIT)
        for service, path in _each(annotations):
            check_annotations(service, Path(path))
        new, *baselines = (
            one if isinstance(one, Run) else stack.enter_context(open(one)) for one in (run, *given)
        )
        result = check_run(
            new.con,
            wanted,
            baselines=[one.con for one in baselines],
            accept_differences=accept_differences,
        )
        if junit is not None:
            write_junit(result, new.path.name, Path(junit))
        for service, path in _each(annotations):
            write_annotations(result, service, Path(rules), Path(path))
    return result


def _each(annotations: Annotations | Sequence[Annotations] | None) -> Sequence[Annotations]:
    """Return pairs of a service and its file, of which one may be given alone."""
    if annotations and isinstance(annotations[0], str):
        return [cast("Annotations", annotations)]
    return cast("Sequence[Annotations]", annotations or ())
