"""traceweave serve: the whole run in the browser."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path

import click

from traceweave.cli.names import is_run
from traceweave.cli.options import example, require
from traceweave.errors import UsageError


@click.command(
    short_help="Explore the whole run in the browser.",
    epilog=example(
        "traceweave serve run.duckdb",
        "traceweave serve run.tw --port 8765 --no-open",
        "traceweave serve traces/ -o run.duckdb",
    ),
)
@click.argument("database", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="DATABASE is traces: read them into this database first. The page opens at once, says how"
    " far that is, and then shows the run.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default="any that is free",
    help="Port on this machine's loopback.",
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
def serve(database: Path, output: Path | None, port: int, no_open: bool) -> None:
    """Serve a page on this machine: every rank and step of DATABASE, from hours to nanoseconds.

    Search, selection, details, SQL; the address, with its secret, opens it until Ctrl-C. Only
    this machine can reach it, and nothing is changed. It needs pip install
    'traceweave-ranks[serve]'.
    """
    if output is None and database.is_dir() and not is_run(database):
        line = shlex.join(["traceweave", "serve", str(database), "-o", "run.duckdb"])
        raise UsageError(f"{database} is a folder of traces; name a database for them: {line}")
    if output is None:
        require(database)

    from traceweave.cli.ingest import read_and_tell
    from traceweave.cli.output import note
    from traceweave.explorer import serve as serve_page

    def say(url: str) -> None:
        click.echo(url)
        note("Ctrl-C ends it")

    if output is None:
        serve_page(database, port, not no_open, say)
    else:
        serve_page(output, port, not no_open, say, partial(read_and_tell, str(database), output))
