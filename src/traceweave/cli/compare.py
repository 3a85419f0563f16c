"""traceweave compare: two runs side by side."""

from __future__ import annotations

from pathlib import Path

import click

from traceweave.cli.options import OneOf, example, existing, printing_rows
from traceweave.words import plural

TABLES = (
    "step", "budget", "overlap", "classes", "kernels", "ops", "collectives", "stragglers", "memory",
)  # fmt: skip
"""Those of traceweave.comparison.TABLES, which a test compares; importing it takes a second."""

SHORT = 10
"""Rows of each table when all of them are printed."""


BRIEF = ("item", "class", "shape", "change", "base_ns", "new_ns", "difference_ns", "relative")
"""Columns of kernels, operators and collectives when all tables are printed."""


@click.command(
    short_help="Compare two runs: what got slower, and is it more than chance?",
    epilog=example(
        "traceweave compare base.duckdb new.duckdb",
        "traceweave compare base.duckdb new.duckdb -o compare.html",
        "traceweave compare base.duckdb new.duckdb --table kernels --format csv",
    ),
)
@click.argument("base", type=click.Path(path_type=Path), callback=existing)
@click.argument("new", type=click.Path(path_type=Path), callback=existing)
@click.option(
    "--table", "name", type=OneOf(TABLES), help="Print this table alone, with all its rows."
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="First steps of either run that do not count, as long as three remain.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="Level of significance.",
)
@printing_rows
def compare(
    base: Path,
    new: Path,
    name: str | None,
    warmup: int,
    alpha: float,
    format_: str,
    output: Path | None,
    most_rows: int,
) -> None:
    """Compare the run in NEW with the one in BASE, per step and rank.

    With -o FILE.html it writes one self-contained page. Differences are new minus base.
    """
    from traceweave import api
    from traceweave.cli.output import note, print_rows

    page = output is not None and output.suffix.lower() in (".html", ".htm")
    if not page and name is None and (format_ not in ("table", "markdown") or output is not None):
        raise click.UsageError(
            "one file holds one table: name it with --table", click.get_current_context()
        )
    found = api.compare(base, new, warmup=warmup, alpha=alpha)
    if page and output is not None:
        note(f"wrote {found.report(output)}")
        return
    if name is not None:
        print_rows(found.table(name).to_reader(), format_, output, most_rows)
        return
    for sentence in found.words:
        print(sentence)
    for title, table in found.tables.items():
        if "item" in table.schema.names:
            table = table.select(BRIEF)
        if len(table):
            print(f"\n{title}: {found.meaning(title)}\n")
            print_rows(table.slice(0, SHORT).to_reader(), format_, None, most_rows)
        if len(table) > SHORT:
            more = plural(len(table) - SHORT, "more row")
            note(f"{title}: {more}; --table {title} prints them")
