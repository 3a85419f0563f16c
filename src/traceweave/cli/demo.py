"""traceweave demo: a small simulated run, from traces to the report."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import example


@click.command(
    short_help="Simulate a small run and show it.",
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
    """Simulate a small run, ingest it, print the overview and write the report.

    Four ranks train for four steps; rank 2 computes 400 us longer in every step, and the clocks
    of the ranks are up to a millisecond apart. The report should find both.
    """
    from traceweave import api
    from traceweave.cli.info import print_overview
    from traceweave.cli.ingest import summarize
    from traceweave.cli.output import note
    from traceweave.cli.progress import progress_bars
    from traceweave.ingestion import ingest
    from traceweave.simulate import Config, simulate, write_kineto

    traces, database = folder / "traces", folder / "demo.duckdb"
    traces.mkdir(parents=True, exist_ok=True)
    config = Config(ranks=4, steps=4, straggler={2: 400_000}, clock_offset_ns=1_000_000)
    write_kineto(simulate(config), traces)
    with progress_bars() as bars:
        summarize(ingest(traces, database, progress=bars))
    with api.open(database) as run:
        print_overview(run)
        page = run.report(database.with_suffix(".html"))
    note(f"wrote {page}; open it in a browser")
    note(f"ask on: traceweave analyze tails {database}, traceweave query {database} 'SELECT …'")
