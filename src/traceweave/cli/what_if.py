"""traceweave what-if: what steps would take if something were otherwise."""

from __future__ import annotations

from contextlib import ExitStack
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
@click.option(
    "--verify",
    type=click.Path(path_type=Path),
    metavar="DATABASE",
    help="The run as it was recorded after the fix: its step stands beside the prediction.",
)
@printing_rows
def what_if(
    database: Path,
    scenarios: tuple[str, ...],
    by: str,
    verify: Path | None,
    printing: Printing,
) -> None:
    """Replay the run in DATABASE with each SCENARIO, and with all of them at once.

    A scenario is KEY=VALUE pairs: which work is meant (rank= step= kind= while=idle class= op=
    group= name= module= bytes= stream=) and one change to it (times= like=median|fastest|mean
    gbps= alpha_us= bucket_mb= prefetch= overlap=full wait=none contention=none). Kinds are
    compute, transfer, launch, sync, copy, device_delay, and what keeps a host from launching:
    data_loading, allocator, compilation, module_loading, graph_capture, profiler_overhead.
    while=idle means only such time of the host in which its GPU ran nothing. A semicolon puts
    several into one scenario.
    """
    from traceweave import api
    from traceweave.cli.output import print_rows
    from traceweave.cli.progress import waiting

    with ExitStack() as opened:
        run = opened.enter_context(api.open(database))
        after = None if verify is None else opened.enter_context(api.open(verify))
        with waiting("replaying"):
            rows = run.stream_what_if(*scenarios, by=by, verify=after)
        print_rows(rows, printing)
