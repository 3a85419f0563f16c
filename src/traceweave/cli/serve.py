"""traceweave serve: the whole run in the browser."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import DATABASE, example


@click.command(
    short_help="Explore the whole run in the browser.",
    epilog=example("traceweave serve run.duckdb", "traceweave serve run.tw --port 8765 --no-open"),
)
@DATABASE
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=0,
    show_default="any that is free",
    help="Port on this machine's loopback.",
)
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
def serve(database: Path, port: int, no_open: bool) -> None:
    """Serve a page on this machine: every rank and step of DATABASE, from hours to nanoseconds.

    Search, selection, details, SQL; the address, with its secret, opens it until Ctrl-C. Only
    this machine can reach it, and nothing is changed. It needs pip install
    'traceweave-ranks[serve]'.
    """
    from traceweave.cli.output import note
    from traceweave.explorer import serve as serve_page

    def say(url: str) -> None:
        click.echo(url)
        note("Ctrl-C ends it")

    serve_page(database, port, not no_open, say)
