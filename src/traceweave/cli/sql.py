"""traceweave sql: analyses for other clients of DuckDB."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave import words
from traceweave.cli.options import example, require
from traceweave.errors import UsageError
from traceweave.locations import shown


@click.command(
    short_help="Leave analyses in a database as SQL, for any client.",
    epilog=example(
        "traceweave sql run.duckdb --install",
        'duckdb run.duckdb "FROM tails()"',
        "traceweave sql > analyses.sql",
    ),
)
@click.argument("database", required=False, type=click.Path(path_type=Path))
@click.option("--install", is_flag=True, help="Create them in DATABASE, in place.")
def sql(database: Path | None, install: bool) -> None:
    """Write analyses as table macros of DuckDB: to stdout, or with --install into DATABASE.

    These are the analyses that need no Python; the others are there by name, and say that they do.
    'traceweave query' and run.sql in Python have all of them without this. Rows are computed when
    they are asked for, so that nothing gets stale.
    """
    if install != (database is not None):
        raise UsageError(
            "type 'traceweave sql DATABASE --install', or 'traceweave sql' for the SQL"
        )
    if database is not None:
        require(database)
        from traceweave import api
        from traceweave.cli.output import note

        names = api.install_analyses(database)
        many = words.plural(len(names), "analysis", "analyses")
        note(f"{shown(database)}: {many}: {', '.join(names)}")
        return
    from traceweave import analyses

    for statement in analyses.create_statements():
        click.echo(f"{statement};\n")
