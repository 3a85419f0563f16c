"""traceweave report: the page."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import DATABASE, example
from traceweave.locations import shown


@click.command(
    short_help="Write one self-contained HTML page.",
    epilog=example("traceweave report run.duckdb -o run.html"),
)
@DATABASE
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The page; default: the database's name with .html. An existing page is replaced.",
)
@click.option("--title", help="Name of the run; default: the folder that its traces are in.")
def report(database: Path, output: Path | None, title: str | None) -> None:
    """Write one self-contained HTML page on DATABASE: where the time went, and what to do."""
    from traceweave import api
    from traceweave.cli.output import note
    from traceweave.cli.progress import waiting
    from traceweave.report import write_report

    path = output or database.with_suffix(".html")
    with api.open(database) as run, waiting("writing the page") as say:
        write_report(run.con, path, title, say, run=Path(shown(database)).name)
    note(f"wrote {shown(path)}")
