"""traceweave compare: two runs side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave.cli.options import PAGES, OneOf, Printing, example, existing, printing_rows
from traceweave.errors import UsageError
from traceweave.words import plural

if TYPE_CHECKING:
    from traceweave.comparison import Comparison

TABLES = (
    "comparability", "step", "budget", "overlap", "classes", "kernels", "ops", "collectives",
    "stragglers", "memory",
)  # fmt: skip
"""Those of traceweave.comparison.TABLES, which a test compares; importing it takes a second."""


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
@click.option(
    "--smallest-change",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.01,
    show_default=True,
    help="Share of the step below which a change does not count; of kernels and other items a tenth"
    " of it.",
)
@click.option("--title", help="Heading of the page; default: the names of both runs.")
@partial(printing_rows, pages=True)
def compare(
    base: Path,
    new: Path,
    name: str | None,
    warmup: int,
    alpha: float,
    smallest_change: float,
    title: str | None,
    printing: Printing,
) -> None:
    """Compare the run in NEW with the one in BASE, per step and rank.

    It begins with whether they can be compared; of runs that cannot, tables are only printed one by
    one, with --table. With -o FILE.html it writes one self-contained
    page, with --format json all tables at once. Differences are new minus base.
    """
    from traceweave import api
    from traceweave.cli.output import note, print_object, print_rows
    from traceweave.cli.progress import waiting

    format_, output = printing.format_, printing.output
    page = output is not None and output.suffix.lower() in PAGES
    if page and format_ != "table":
        raise UsageError(f"{output}: is a page; name another file for --format {format_}")
    if title is not None and not page:
        raise UsageError("--title is for the page: name it with -o FILE.html")
    if page and name is not None:
        raise UsageError("--table is for rows: the page has all tables; name a .csv file for one")
    whole = page or format_ == "json"
    if not whole and name is None and (format_ not in ("table", "markdown") or output is not None):
        raise click.UsageError(
            "one file holds one table: name it with --table; .html and .json hold all of them",
            click.get_current_context(),
        )
    with waiting("comparing"):
        found = api.compare(base, new, warmup=warmup, alpha=alpha, smallest_change=smallest_change)
    if page and output is not None:
        note(f"wrote {found.report(output, title=title)}")
        return
    if name is not None:
        print_rows(found.table(name).to_reader(), printing)
        return
    if format_ == "json":
        print_object(found.to_dict(), output)
        return
    _print_all(found, printing)


def _print_all(found: Comparison, printing: Printing) -> None:
    """Print what was found in words, then the first rows of every table."""
    from traceweave.cli.output import note, print_rows

    for sentence in found.words:
        print(sentence)
    for title, table in found.brief():
        print(f"\n{title}: {found.meaning(title)}\n")
        print_rows(table.to_reader(), printing)
        left = len(found.tables[title]) - len(table)
        if left:
            note(f"{title}: {plural(left, 'more row')}; --table {title} prints them")
    if found.comparability.verdict == "not comparable":
        note("the other tables compare unlike runs: --table prints one, -o FILE.html all of them")
