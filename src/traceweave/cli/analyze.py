"""traceweave analyze: the named analyses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave.cli.names import beginning_names
from traceweave.cli.options import example, on_dask, printing_rows, require
from traceweave.errors import UsageError, suggest

if TYPE_CHECKING:
    from traceweave.analyses import Analysis


@click.command(
    short_help="Print the rows of a named analysis.",
    epilog=example(
        "traceweave analyze --list",
        "traceweave analyze breakdown run.duckdb",
        "traceweave analyze breakdown run.duckdb -p window=span --format csv",
        "traceweave analyze steps run.duckdb --largest length_ns --rows 10",
        "traceweave analyze gaps run.duckdb --columns rank,step,duration,cause,host_op",
        "traceweave analyze gaps --list",
    ),
)
@click.argument("name", required=False, shell_complete=beginning_names)
@click.argument("database", required=False, type=click.Path(path_type=Path))
@click.option(
    "--list",
    "list_",
    is_flag=True,
    help="List the analyses with their parameters; with NAME, explain this one.",
)
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the analysis; may be repeated.",
)
@click.option(
    "--largest",
    metavar="COLUMN",
    help="Rows with the largest values of this column first, in place of their usual order.",
)
@click.option(
    "--columns", metavar="COLUMN,COLUMN", help="Only these columns, in this order; default: all."
)
@on_dask("Answer on Dask's workers, where an analysis can be asked some ranks at a time", "core")
@printing_rows
def analyze(
    name: str | None,
    database: Path | None,
    list_: bool,
    params: tuple[str, ...],
    largest: str | None,
    columns: str | None,
    dask: str | None,
    format_: str,
    output: Path | None,
    most_rows: int,
) -> None:
    """Print the rows of the analysis NAME of DATABASE."""
    from traceweave.cli.names import analysis_and_database
    from traceweave.cli.output import largest_first, note, only_columns, print_rows

    as_text = format_ == "table" and output is None
    if list_:
        _list(name, as_text, format_, output)
        return
    name, database = analysis_and_database(name, database)
    values = dict(_parameter(text) for text in params)
    analysis = _checked(name, values, database)
    order = None if largest is None else _column(analysis, largest)
    wanted = None if columns is None else [_column(analysis, c) for c in columns.split(",")]

    from traceweave import api

    with api.open(database, dask=dask) as run:
        rows = run.stream_analysis(name, **values)
        if order is not None:
            rows = largest_first(rows, order)
        if wanted is not None:
            rows = only_columns(rows, wanted)
        any_rows = print_rows(rows, format_, output, most_rows)
    if as_text:
        note(_below(analysis, any_rows))


def _below(analysis: Analysis, any_rows: bool) -> str:
    """Say what a reader has to know below a table."""
    if not any_rows:
        return "; it ".join([f"{analysis.name} has {analysis.grain}", *analysis.requirements])
    if analysis.topic == "overview":
        return analysis.caveats[0]
    line = f"traceweave analyze {analysis.name} --list"
    return f"'{line}' explains the columns, --columns chooses some"


def _list(name: str | None, as_text: bool, format_: str, output: Path | None) -> None:
    from traceweave import analyses
    from traceweave.cli import catalog
    from traceweave.cli.names import known_analysis
    from traceweave.cli.output import as_table, print_rows

    if name is not None:
        catalog.print_analysis(known_analysis(name))
    elif as_text:
        catalog.print_catalog()
    else:
        print_rows(as_table(analyses.catalog_rows()), format_, output)


def _checked(name: str, values: dict[str, str], database: Path) -> Analysis:
    """Find what is wrong with the arguments before what answers them is loaded."""
    from traceweave import analyses

    analysis = analyses.find(name)
    analysis.bind(dict(values))
    require(database)
    return analysis


def _column(analysis: Analysis, name: str) -> str:
    """Return the column called `name`, or shown as that: duration is duration_ns."""
    from traceweave.cli.cells import headings

    names = [column.name for column in analysis.columns]
    shown = dict(zip(headings(names), names, strict=True)) | {n: n for n in names}
    if name not in shown:
        hint = suggest(name, names) or f"; available: {', '.join(names)}"
        raise UsageError(f"{analysis.name} has no column {name!r}{hint}")
    return shown[name]


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--param")
    return name, value
