"""traceweave info: what is in a database, and how far to trust it."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave import words
from traceweave.cli.options import DATABASE, OneOf, example
from traceweave.locations import shown

if TYPE_CHECKING:
    from traceweave.overview import Overview
    from traceweave.run import Run


@click.command(
    short_help="Print the overview of a database.",
    epilog=example("traceweave info run.duckdb", "traceweave info run.duckdb --format json"),
)
@DATABASE
@click.option(
    "-f",
    "--format",
    "format_",
    type=OneOf(["table", "json"]),
    default="table",
    show_default=True,
    help="table is for people, json has raw values (times in ns).",
)
@click.option(
    "--verify",
    is_flag=True,
    help="First read every file of a run folder and compare its hash with the manifest's.",
)
def info(database: Path, format_: str, verify: bool) -> None:
    """Print the overview of DATABASE: ranks, hosts, GPUs, steps, clock quality, warnings."""
    from traceweave import api

    if verify:
        from traceweave.cli.output import note

        note(f"{shown(database)}: {words.size(api.verify(database))} are as they were written")

    with api.open(database) as run:
        if format_ == "json":
            import orjson

            print(orjson.dumps(asdict(run.info()), option=orjson.OPT_INDENT_2).decode())
            return
        print_overview(run)


def print_overview(run: Run) -> None:
    """Print the overview of a run as a page of text."""
    from traceweave.cli.cells import printable

    database, overview = run.path, run.info()
    count = len(overview.ranks)
    world = f" of {overview.world_size}" if overview.world_size else ""
    begun = (rank.first_local_ns for rank in overview.ranks)
    starts = [ns for ns in begun if ns is not None and ns >= words.EPOCH_FROM_NS]
    made = overview.ingested_at_utc
    day = words.date_and_time(made) if made else "an unknown day"
    facts = {
        "database": f"{shown(database)}, {overview.created_by}, ingested {day}",
        "ranks": f"{count}{world} ({words.folded(r.rank for r in overview.ranks)})",
        "hosts": ", ".join(overview.hosts) or "not named",
        "GPUs": ", ".join(overview.gpus) or "none named",
        "backend": " ".join(filter(None, (overview.backend, overview.nccl_version))) or "unknown",
        "started": words.date_and_time(min(starts)) if starts else "unknown",
        "collectives": matched(overview),
    }
    for name, fact in facts.items():
        print(f"{name + ':':13}{printable(fact)}")
    name = printable(shown(database))
    _print_section("Ranks", [asdict(rank) for rank in overview.ranks], _RANKS, "steps")
    _print_more(len(overview.ranks), f"traceweave analyze ranks {name}")
    _print_section("Clocks", [asdict(clock) for clock in overview.clocks], _CLOCKS, "status")
    _print_more(len(overview.clocks), f"traceweave analyze clock_quality {name}")
    _print_section("Sources", [_source(asdict(s)) for s in overview.sources], _SOURCES, "status")
    _print_more(len(overview.sources), f"traceweave analyze files {name}")
    _print_warnings(overview)
    print(f"\nNext\n  traceweave analyze health {name}\n  traceweave analyze findings {name}")


def _print_warnings(overview: Overview) -> None:
    import textwrap

    from traceweave.cli.cells import printable
    from traceweave.cli.output import text_width

    if overview.warnings:
        print("\nWarnings")
    for warning in overview.warnings:
        events = f" ({words.plural(warning.count, 'event')})" if warning.count else ""
        print(
            textwrap.fill(
                printable(f"{warning.kind}{events}: {warning.text}"),
                text_width(),
                initial_indent="  ",
                subsequent_indent="      ",
                break_long_words=False,
            )
        )


def matched(overview: Overview) -> str:
    """Say how many collectives were found on several ranks, and whether on all of their group."""
    instances, unsized = overview.instances, overview.unsized_instances
    found = f"{words.count(instances)} matched"
    calls = sum(rank.collectives for rank in overview.ranks)
    if not instances:
        return f"none matched, {words.plural(calls, 'call')}" if calls else "none"
    if unsized == instances:
        return f"{found}; the traces do not say how many ranks their groups have"
    complete = overview.complete_instances
    whole = "all" if complete == instances else words.count(complete)
    text = f"{found}, {whole} with every rank of their group"
    return f"{text}; {words.count(unsized)} of a group of unknown size" if unsized else text


MOST_ROWS = 16
"""Ranks, clocks and files that are listed one by one."""

_RANKS = ("rank", "host", "gpu_name", "span_ns", "steps", "gpu_ops", "host_ops", "collectives",
          "matched", "rank_source")  # fmt: skip
_CLOCKS = ("rank", "status", "offset_ns", "drift_ppm", "residual_p95_ns", "bound_ns", "anchors",
           "method")  # fmt: skip
_SOURCES = ("file", "format", "version", "size_bytes", "events_read", "events_skipped", "status",
            "message")  # fmt: skip


def _tells(column: str, rows: list[dict[str, object]]) -> bool:
    """Leave out a column without values, and one whose only value stands above already."""
    values = {row[column] for row in rows}
    return values != {None} and not (column in ("host", "gpu_name") and len(values) == 1)


def some_rows(rows: list[dict[str, object]], telling: str) -> list[dict[str, object]]:
    """Return at most MOST_ROWS of the rows: the unusual ones, and the first of the others."""
    if len(rows) <= MOST_ROWS:
        return rows
    (usual, _), *_ = Counter(row[telling] for row in rows).most_common(1)
    ordered = sorted(range(len(rows)), key=lambda n: (rows[n][telling] == usual, n))
    return [rows[n] for n in sorted(ordered[:MOST_ROWS])]


def _print_more(count: int, command: str) -> None:
    if count > MOST_ROWS:
        print(f"  {MOST_ROWS} of {words.count(count)} are shown; all: {command}")


def _source(source: dict[str, object]) -> dict[str, object]:
    return {
        **source,
        "file": Path(str(source["path"])).name,
        "version": source["producer_version"],
    }


def _print_section(
    title: str, rows: list[dict[str, object]], columns: tuple[str, ...], telling: str
) -> None:
    """Print rows as a table; of very many those that differ from most in `telling`, and some."""
    from traceweave.cli import layout
    from traceweave.cli.cells import cell, headings
    from traceweave.cli.output import page_width

    used = [c for c in columns if _tells(c, rows)]
    cells = [[cell(c, row[c]) for c in used] for row in some_rows(rows, telling)]
    numeric = [any(isinstance(row[c], int | float) for row in rows) for c in used]
    lines, *_ = layout.lay_out(headings(used), cells, numeric, page_width(sys.stdout) - 2)
    print(f"\n{title}")
    for line in lines if rows else ["none"]:
        print(f"  {line}")
