"""An open run: ask it, report on it, export it. The CLI can do no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import duckdb
import pyarrow as pa

from traceweave import analyses, queries
from traceweave.errors import QueryError, UsageError, suggest
from traceweave.frames import Frames, to_frames
from traceweave.locations import is_sql_file, shown
from traceweave.overview import Overview, read_overview
from traceweave.queries import Parameters
from traceweave.store.schema import Schema, public_relations
from traceweave.targets import reading

if TYPE_CHECKING:
    import pandas as pd
    from typing_extensions import TypeVar

    from traceweave.methods import Analyses
    from traceweave.notebook.plots import Plots

    Frame = TypeVar("Frame", default=pd.DataFrame)
else:
    from typing import Generic as Analyses
    from typing import TypeVar

    Frame = TypeVar("Frame")

BATCH_ROWS = 65_536
"""Rows per batch of a streamed result."""

HELP_WIDTH = 96
"""Characters to a line of what `help` says of an analysis, which it indents by four."""


class Run(Analyses[Frame]):
    """One ingested run. Every analysis is also a method: `run.breakdown(window="host")`.

    `run.analyses()` lists them, `help(run.breakdown)` shows the parameters and columns of one.
    Times are integer nanoseconds. Integer columns with NULLs come as pandas' Int64, so that no
    value is ever rounded.
    """

    def __init__(
        self, path: Path, con: duckdb.DuckDBPyConnection, frames: Frames = "pandas"
    ) -> None:
        self._frames = frames
        self.path = path
        """The database file or the run folder."""
        self._con: duckdb.DuckDBPyConnection | None = con
        self.closing = ExitStack()
        """What ends with the run."""

    @property
    def con(self) -> duckdb.DuckDBPyConnection:
        """The read-only DuckDB connection, for what DuckDB itself offers: relations, cursors.

        Tables and views are there; analyses as functions are for `sql`, which computes them. A
        result of `con.execute` has to be fetched to its end before the run is asked again.
        Raises QueryError for a run that is closed.
        """
        if self._con is None:
            raise QueryError(f"{shown(self.path)}: the run is closed; open it again")
        return self._con

    def sql(self, query: str, params: Parameters | None = None) -> Frame:
        """Return the rows of a query; `?` or `$name` in it take `params`. Raises QueryError.

        Analyses are table functions in it: `SELECT * FROM gaps(min_gap_ns := 100000)`.
        """
        return self._framed(self.stream(query, params).read_all())

    def stream(self, query: str, params: Parameters | None = None) -> pa.RecordBatchReader:
        """Return the rows of a query as Arrow batches. Raises QueryError."""
        return queries.ask(self.con, query, params, BATCH_ROWS)

    def register(self, name: str, frame: object) -> None:
        """Make a frame of pandas or polars, or an Arrow table, a table of this run's queries.

        `run.register("nodes", frame)`, then `run.sql("FROM breakdown() JOIN nodes USING (rank)")`;
        it replaces what was registered by that name. Raises UsageError for the name of a table of
        the run, and for what is no frame.
        """
        taken = "SELECT 1 FROM duckdb_columns() WHERE database_name = current_database()"
        if self.con.execute(f"{taken} AND table_name = lower(?)", [name]).fetchall():
            raise UsageError(f"{name!r} is a table of the run; register the frame by another name")
        try:
            self.con.register(name, frame)
        except duckdb.Error as error:
            raise UsageError(
                f"a table is made of a frame of pandas or polars, or an Arrow table; {name!r} is"
                f" {type(frame).__name__}"
            ) from error

    def analyze(self, name: str | Path, **params: object) -> Frame:
        """Return the rows of the analysis `name`, or of one's own in a file `./name.sql`.

        A file has a header as docs/sql.md shows, and may do no more than a query.
        Raises UsageError or QueryError.
        """
        return self._framed(self.stream_analysis(name, **params).read_all())

    def stream_analysis(self, name: str | Path, **params: object) -> pa.RecordBatchReader:
        """Return the rows of the analysis `name` as Arrow batches."""
        is_file = is_sql_file(name)
        analysis = analyses.read_own(name) if is_file else analyses.find(str(name))
        if analysis.is_own:
            return queries.ask_own(self.con, analysis, params, BATCH_ROWS)
        return analyses.run(self.con, analysis.name, **params).to_arrow_reader(BATCH_ROWS)

    def what_if(self, *scenarios: str, by: str = "scenario", verify: Run | None = None) -> Frame:
        """Return what steps would take if something were otherwise: one row per scenario.

        A scenario is a text of KEY=VALUE pairs: what is meant (`rank step kind class op group name
        module bytes`) and one change to it (`times like gbps alpha_us bucket_mb prefetch
        overlap`), such as "rank=3 kind=compute like=median" or "kind=data_loading times=0". Each is
        replayed alone, and if there are several, all together in the last row: gains do not add.
        `by` is 'scenario', or 'rank' for the mean step of each rank, or 'path' for what the
        critical path is then made of. `verify` is the run that was recorded after the fix: its step
        is put beside the prediction. Raises UsageError for a scenario that makes no sense or
        selects nothing, QueryError where replay is refused.
        """
        return self._framed(self.stream_what_if(*scenarios, by=by, verify=verify).read_all())

    def stream_what_if(
        self, *scenarios: str, by: str = "scenario", verify: Run | None = None
    ) -> pa.RecordBatchReader:
        """Return the rows of `what_if` as Arrow batches."""
        from traceweave.replay import verified, what_if

        if verify is not None and by != "scenario":
            raise UsageError("a recording verifies the mean step: by is 'scenario' then")
        answers = what_if(self.con, scenarios, by)
        return (answers if verify is None else verified(answers, verify.con)).to_reader()

    def analyses(self) -> Frame:
        """Return one row per analysis: its name, topic, question, and parameters with defaults."""
        return self._framed(pa.Table.from_pylist(analyses.catalog_rows()))

    def info(self) -> Overview:
        """Return the overview: ranks, steps, clock quality, sources, warnings."""
        return read_overview(self.con)

    def schema(self) -> Schema:
        """Return the public tables and views with the meaning of every column."""
        return Schema(public_relations())

    def starter_rules(self) -> str:
        """Return a rules file for `check` with limits that this run holds, with some room."""
        from traceweave.checks import starter_rules

        return starter_rules(self.con)

    def report(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write the report, one self-contained HTML page, and return its path.

        `title` names the run; without it, the folder that its traces are in does. Raises UsageError
        for a file that is no such page, InputError if it cannot be written.
        """
        from traceweave.report import write_report

        with reading(lambda: files_of(self)):
            write_report(self.con, Path(path), title, run=Path(shown(self.path)).name)
        return Path(path)

    def export(
        self,
        path: str | Path,
        to: str = "perfetto",
        *,
        ranks: str | Iterable[int] | None = None,
        steps: str | Iterable[int] | None = None,
        start_ns: int | str | None = None,
        end_ns: int | str | None = None,
        host: bool = True,
        gaps: bool = False,
    ) -> Path:
        """Export the run for another tool and return the path; an existing file is replaced.

        `to="perfetto"`: the aligned timeline, one file for https://ui.perfetto.dev, of the given
        `ranks` and `steps` (integers or '0,3-5') between two aligned times (ns, or offsets from the
        run's start such as '+1.5s'), with or without `host` events, with idle `gaps` if asked for.
        `to="perfetto-manifest"`: an archive of the original traces of the PyTorch profiler, of all
        `ranks` or of these, with the offset of each to the common clock, for Perfetto 58 and newer.
        `to="parquet"`: every public relation as one file in the folder `path`.
        Raises UsageError for a wrong selection and for a file of another kind, or that the run was
        read from, InputError if the path cannot be written.
        """
        from traceweave.export import export

        with reading(lambda: files_of(self)):
            return export(
                self.con,
                Path(path),
                to,
                ranks=ranks,
                steps=steps,
                start=start_ns,
                end=end_ns,
                host=host,
                gaps=gaps,
            )

    def _framed(self, table: pa.Table) -> Frame:
        return cast("Frame", to_frames(table, self._frames))

    @property
    def plot(self) -> Plots:
        """Pictures: `run.plot.breakdown()`, `.timeline(step)`, `.tails()`, `.bandwidth()`."""
        from traceweave.notebook.plots import Plots

        return Plots(self.con)

    def _repr_html_(self) -> str:
        """Return what a notebook shows of a run: its facts and `health`."""
        from traceweave.notebook.tables import run_html

        return run_html(self.con, shown(self.path))

    def close(self) -> None:
        """Close the connection; the run cannot be used afterwards."""
        self.closing.close()
        if self._con is not None:
            self._con.close()
            self._con = None

    if not TYPE_CHECKING:  # methods.pyi names them, so that a type checker knows a wrong name

        def __getattr__(self, name: str) -> Callable[..., Frame]:
            for analysis in analyses.catalog():
                if analysis.name == name:
                    return _method(self, analysis)
            public = [known for known in dir(self) if not known.startswith("_")]
            hint = suggest(name, public) or "; run.analyses() lists what can be asked"
            raise AttributeError(f"a run has no analysis or method {name!r}{hint}")

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *(analysis.name for analysis in analyses.catalog())])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<traceweave run {shown(self.path)!r}>"


def files_of(run: Run[Any]) -> Iterator[str | Path]:
    """Yield what a run is in, then the files that it was read from."""
    yield run.path
    yield from (path for (path,) in run.con.execute("SELECT path FROM sources").fetchall())


def _method(run: Run[Frame], analysis: analyses.Analysis) -> Callable[..., Frame]:
    """Return an analysis as a method, which says of itself what the analysis does."""

    def ask(**params: object) -> Frame:
        return run.analyze(analysis.name, **params)

    ask.__name__ = analysis.name
    ask.__qualname__ = f"Run.{analysis.name}"
    ask.__doc__ = analyses.analysis_text(
        analysis, lambda parameter: f"{parameter.name}={parameter.default!r}", HELP_WIDTH
    )
    ask.__signature__ = analyses.signature(analysis)  # type: ignore[attr-defined]
    return ask
