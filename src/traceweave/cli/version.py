"""traceweave version."""

from __future__ import annotations

import click

from traceweave._version import __version__
from traceweave.cli.options import example


@click.command(short_help="Print the version.", epilog=example("traceweave version"))
def version() -> None:
    """Print the versions of traceweave and its dependencies."""
    import platform
    from importlib.metadata import version as installed

    click.echo(f"traceweave {__version__}")
    click.echo(f"duckdb {installed('duckdb')}, python {platform.python_version()}")
