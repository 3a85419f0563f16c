"""traceweave query: ad-hoc SQL."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from traceweave.cli.options import DATABASE, example, printing_rows


@click.command(
    short_help="Print the rows of a query.",
    epilog=example(
        'traceweave query run.duckdb "SELECT rank, count(*) FROM gpu_ops GROUP BY rank"',
        "traceweave query run.duckdb - --format csv < question.sql > answer.csv",
    ),
)
@DATABASE
@click.argument("sql")
@printing_rows
def query(database: Path, sql: str, format_: str, output: Path | None, most_rows: int) -> None:
    """Print the rows of a query. SQL is DuckDB's; '-' reads it from stdin.

    The database is open read-only and cut off from other files. 'traceweave schema' lists the
    tables.
    """
    from traceweave import api
    from traceweave.cli.output import print_rows

    text = sys.stdin.read() if sql == "-" else sql
    with api.open(database) as run:
        print_rows(run.stream(text), format_, output, most_rows)
