"""traceweave export: the run for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave.cli.options import DATABASE, OneOf, example
from traceweave.errors import shortened
from traceweave.locations import shown
from traceweave.words import duration

if TYPE_CHECKING:
    from traceweave.export import Bundle


@click.command(
    short_help="Write the aligned timeline for Perfetto, or Parquet files.",
    epilog=example(
        "traceweave export run.duckdb --to perfetto -o run.pftrace",
        "traceweave export run.duckdb --ranks 0,3-5 --steps 4-6 --no-host -o small.pftrace",
        "traceweave export run.duckdb --from +1.5s --until +2s",
        "traceweave export run.duckdb --to perfetto-manifest -o run.zip",
        "traceweave export run.duckdb --to parquet -o run-parquet",
    ),
)
@DATABASE
@click.option(
    "--to",
    type=OneOf(["perfetto", "perfetto-manifest", "parquet"]),
    default="perfetto",
    show_default=True,
    help="A trace for ui.perfetto.dev, the original traces with a manifest of their clocks for it,"
    " or every table as one Parquet file in a folder.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The trace, archive or folder; default: the database's name with .pftrace, .zip or"
    " -parquet. An existing one is replaced.",
)
@click.option("--ranks", metavar="N,N-N", help="Only these ranks.")
@click.option(
    "--steps", metavar="N,N-N", help="Only these steps; GPU ops belong to the step of their launch."
)
@click.option(
    "--from",
    "start",
    metavar="TIME",
    help="Only what ends after this: aligned ns, or an offset such as +1.5s from the run's start.",
)
@click.option("--until", "end", metavar="TIME", help="Only what starts before this.")
@click.option(
    "--host/--no-host",
    default=True,
    show_default=True,
    help="Host operators and API calls, with arrows to the GPU ops that they launch.",
)
@click.option(
    "--gaps",
    is_flag=True,
    help="Add idle gaps, exposed communication per step and the critical path.",
)
def export(
    database: Path,
    to: str,
    output: Path | None,
    ranks: str | None,
    steps: str | None,
    start: str | None,
    end: str | None,
    host: bool,
    gaps: bool,
) -> None:
    """Export the run in DATABASE for other tools.

    perfetto: all ranks on one clock, for https://ui.perfetto.dev. A rank is a process, a stream or
    thread a track; arrows join the ranks of a collective, and a launch with its GPU ops.

    perfetto-manifest: a zip archive of the original traces of the PyTorch profiler, as they were
    written, with the offset of each to the common clock, for Perfetto 58 and newer. A file gets one
    offset; what clocks drift and step beyond it is lost, and printed for each rank.
    """
    from traceweave import api
    from traceweave.cli.output import note

    default = {
        "perfetto": database.with_suffix(".pftrace"),
        "perfetto-manifest": database.with_suffix(".zip"),
        "parquet": database.with_name(f"{database.stem}-parquet"),
    }
    with api.open(database) as run:
        path = run.export(
            output or default[to],
            to=to,
            ranks=ranks,
            steps=steps,
            start_ns=start,
            end_ns=end,
            host=host,
            gaps=gaps,
        )
        if to == "perfetto-manifest":
            from traceweave.export import plan, select

            _tell_what_is_lost(plan(run.con, path, select(run.con, ranks=ranks).ranks))
    opened = "" if to == "parquet" else "; open it in https://ui.perfetto.dev"
    note(f"wrote {shown(path)}{opened}")


def _tell_what_is_lost(bundle: Bundle) -> None:
    """Say by how much the files are off, since each has one offset, and which are not there."""
    from traceweave.cli.output import note

    lost = {file.rank: 0 for file in bundle.files}
    for file in bundle.files:
        lost[file.rank] = max(lost[file.rank], file.lost_ns)
    listed = ", ".join(f"rank {rank} by {duration(ns)}" for rank, ns in lost.items())
    note(f"a file gets one offset, without drift and steps; events are off at most: {listed}")
    if bundle.left_out:
        listed = shortened(", ".join(map(str, bundle.left_out)))
        note(f"left out, as Perfetto cannot read them: {listed}")
