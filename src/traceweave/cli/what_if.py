"""traceweave what-if: what steps would take if something were otherwise."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import DATABASE, OneOf, Printing, example, printing_rows

VIEWS = ("scenario", "rank", "path")
"""Those of traceweave.replay.answers.VIEWS, which a test compares; importing it takes a second."""


@click.command(
    "what-if",
    short_help="Predict the step time if something were faster.",
    epilog=example(
        'traceweave what-if run.duckdb "rank=3 kind=compute like=median"',
        'traceweave what-if run.duckdb "kind=data_loading times=0" "kind=launch times=0"',
        'traceweave what-if run.duckdb "op=all_reduce gbps=200" --by rank --format json',
        'traceweave what-if run.duckdb "class=gemm times=0.5; rank=2 kind=sync times=0"',
    ),
)
@DATABASE
@click.argument("scenarios", metavar="SCENARIO...", nargs=-1, required=True)
@click.option(
    "--by",
    type=OneOf(VIEWS),
    default="scenario",
    show_default=True,
    help="One row per scenario, or per rank, or per part of the critical path that there is then.",
)
@printing_rows
def what_if(
    database: Path,
    scenarios: tuple[str, ...],
    by: str,
    printing: Printing,
) -> None:
    """Replay the run in DATABASE with each SCENARIO, and with all of them at once.

    A scenario is KEY=VALUE pairs: which work is meant (rank= step= kind= class= op= group= name=
    module= bytes=) and one change to it (times= like=median|fastest|mean gbps= alpha_us=
    overlap=full). Kinds are compute, transfer, launch, data_loading, sync, copy and device_delay.
    A semicolon puts several into one scenario.
    """
    from traceweave import api
    from traceweave.cli.output import print_rows
    from traceweave.cli.progress import waiting

    with api.open(database) as run:
        with waiting("replaying"):
            rows = run.stream_what_if(*scenarios, by=by)
        print_rows(rows, printing)
