"""traceweave query: ad-hoc SQL."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

from traceweave.cli.names import is_file, is_run
from traceweave.cli.options import Printing, example, printing_rows, require
from traceweave.errors import UsageError


@click.command(
    short_help="Print the rows of a query.",
    epilog=example(
        'traceweave query run.duckdb "SELECT rank, count(*) FROM gpu_ops GROUP BY rank"',
        'traceweave query run.duckdb "SELECT max(duration_ns) FROM gaps(min_gap_ns := 100000)"',
        "traceweave query run.duckdb - --format csv < question.sql > answer.csv",
    ),
)
@click.argument("database", type=click.Path(path_type=Path))
@click.argument("sql")
@printing_rows
def query(database: Path, sql: str, printing: Printing) -> None:
    """Print the rows of a query. SQL is DuckDB's; '-' reads it from stdin.

    The database is opened read-only, without access to other files. 'traceweave schema' lists the
    tables, 'traceweave analyze --list' the analyses, which are functions: FROM breakdown().
    """
    if is_file(sql) and not is_run(database):
        line = f"traceweave query {shlex.quote(sql)} {shlex.quote(str(database))}"
        raise UsageError(f"the database comes first, then the query; type: {line}")
    require(database)

    from traceweave import api
    from traceweave.cli.output import print_rows, ready
    from traceweave.cli.progress import waiting

    text = sys.stdin.read() if sql == "-" else sql
    with api.open(database) as run:
        with waiting("asking"):
            rows = ready(run.stream(text))
        print_rows(rows, printing)
