"""traceweave align: refit the clocks."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import DATABASE, OneOf, Printing, example, printing_rows


@click.command(
    short_help="Refit the clocks of a database.",
    epilog=example("traceweave align run.duckdb", "traceweave align run.duckdb --reference-rank 4"),
)
@DATABASE
@click.option(
    "--reference-rank", type=int, help="The rank whose clock is the common one; default: automatic."
)
@click.option(
    "--clock-per-rank",
    is_flag=True,
    help="Fit every rank's clock separately, even if ranks of one host share one.",
)
@click.option(
    "--method",
    type=OneOf(["ends", "wall clock"]),
    default="ends",
    show_default=True,
    help="Fit to the ends of collectives, or leave every clock as it is.",
)
@printing_rows
def align(
    database: Path,
    reference_rank: int | None,
    clock_per_rank: bool,
    method: str,
    printing: Printing,
) -> None:
    """Refit the clocks of DATABASE to its collectives, in place, and print them."""
    from traceweave import api
    from traceweave.cli.output import print_rows

    api.align(database, reference_rank=reference_rank, same_host=not clock_per_rank, method=method)
    with api.open(database) as run:
        print_rows(
            run.stream("SELECT * FROM clocks ORDER BY rank, from_local_ns NULLS FIRST"), printing
        )
