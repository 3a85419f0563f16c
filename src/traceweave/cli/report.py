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
def report(database: Path, output: Path | None) -> None:
    """Write one self-contained HTML page on DATABASE: where the time went, and what to do."""
    from traceweave import api
    from traceweave.cli.output import note
    from traceweave.cli.progress import waiting

    with api.open(database) as run, waiting("writing the page"):
        path = run.report(output or database.with_suffix(".html"))
    note(f"wrote {shown(path)}")
