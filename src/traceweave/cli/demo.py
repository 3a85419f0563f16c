"""traceweave demo: a real run that ships with the program, from traces to the report."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import click

from traceweave.cli.options import example
from traceweave.errors import UsageError
from traceweave.targets import FileKind


@click.command(
    short_help="Show a real run that ships with traceweave.",
    epilog=example("traceweave demo", "traceweave demo --folder /tmp/demo"),
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("traceweave-demo"),
    show_default=True,
    help="Where the traces, the database and the report go.",
)
def demo(folder: Path) -> None:
    """Ingest real traces that ship with traceweave, print the overview and write the report.

    Four ranks of one host train a small transformer with DistributedDataParallel on CPU (gloo),
    recorded by PyTorch Profiler: four steps, in each of which rank 2 sleeps 40 ms while it loads
    data. The report finds the rank, the 40 ms and the cause.
    """
    from traceweave import api
    from traceweave.cli.info import print_overview
    from traceweave.cli.ingest import summarize
    from traceweave.cli.output import note
    from traceweave.cli.progress import progress_bars
    from traceweave.ingestion import ingest

    traces, database = folder / "traces", folder / "demo.duckdb"
    traces.mkdir(parents=True, exist_ok=True)
    for trace in resources.files("traceweave").joinpath("demo_traces").iterdir():
        _put(traces / trace.name, trace.read_bytes())
    with progress_bars() as bars:
        summarize(ingest(traces, database, progress=bars))
    with api.open(database) as run:
        print_overview(run)
        page = run.report(database.with_suffix(".html"))
    note(f"wrote {page}; open it in a browser")
    note(f"next: traceweave analyze tails {database}, traceweave query {database} 'SELECT …'")


def _put(path: Path, data: bytes) -> None:
    """Write a trace. Raises UsageError if another file is in its place."""
    from traceweave.outputs import write_whole

    if path.exists() and path.read_bytes() != data:
        raise UsageError(f"{path}: exists and is not of the demo; name another --folder")
    write_whole(path, data, FileKind.GZIP)
