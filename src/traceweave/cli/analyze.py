"""traceweave analyze: the named analyses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave import words
from traceweave.cli.names import beginning_names
from traceweave.cli.options import Printing, example, on_dask, printing_rows, require
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
        "traceweave analyze kernels --sql -p rank=0 | duckdb run.duckdb",
        "traceweave analyze ./late.sql run.duckdb -p least_ns=100000",
    ),
)
@click.argument("name", required=False, shell_complete=beginning_names)
@click.argument("database", required=False, type=click.Path(path_type=Path))
@click.option(
    "--list",
    "list_",
    is_flag=True,
    help="List the analyses; with NAME, explain this one, its parameters and its columns.",
)
@click.option(
    "--sql",
    is_flag=True,
    help="Print the SQL of the analysis, which any DuckDB client runs on the database, instead of"
    " its rows.",
)
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a parameter of the analysis; may be repeated. Times and sizes may have a unit:"
    " min_gap_ns=100us.",
)
@click.option(
    "--largest",
    metavar="COLUMN",
    help="Rows with the largest values of this column first, in place of their usual order.",
)
@click.option(
    "--columns",
    metavar="all | COLUMN,COLUMN",
    help="All columns, or only these, in this order. A table on the terminal has the main ones"
    " unless this says otherwise; files and other formats have all.",
)
@on_dask("Answer on Dask's workers, where an analysis can be asked some ranks at a time", "core")
@printing_rows
def analyze(
    name: str | None,
    database: Path | None,
    list_: bool,
    sql: bool,
    params: tuple[str, ...],
    largest: str | None,
    columns: str | None,
    dask: str | None,
    printing: Printing,
) -> None:
    """Print the rows of the analysis NAME of DATABASE; NAME may be a file of yours, ./NAME.sql.

    'traceweave findings run.duckdb' is short for 'traceweave analyze findings run.duckdb'.
    """
    from traceweave.cli.names import analysis_and_database
    from traceweave.cli.output import largest_first, note, only_columns, print_rows, ready
    from traceweave.cli.progress import waiting

    if list_:
        _list(name, printing)
        return
    if sql:
        _print_sql(name, dict(_parameter(text) for text in params))
        return
    name, database = analysis_and_database(name, database)
    values = dict(_parameter(text) for text in params)
    analysis = _checked(name, values, database)
    order = None if largest is None else _column(analysis, largest)
    wanted = _wanted(analysis, columns, order, printing)

    from traceweave import api

    with api.open(database, dask=dask) as run:
        with waiting(f"asking {name}"):
            rows = ready(run.stream_analysis(name, **values))
        if order is not None:
            rows = largest_first(rows, order)
        in_blocks = _in_blocks(analysis, columns, printing)
        if not in_blocks and wanted != [column.name for column in analysis.columns]:
            rows = only_columns(rows, wanted)
        most = analysis.first if printing.most_rows is None else printing.most_rows
        printed = replace(printing, only_filled=columns is None, most_rows=most)
        if in_blocks:
            from traceweave.cli.blocks import print_blocks

            found = print_blocks(rows, database, printed)
            any_rows, is_caveat = bool(found), sum(bool(row["cost_ns"]) for row in found) > 1
        else:
            any_rows, is_caveat = print_rows(rows, printed), analysis.topic == "overview"
    if printing.to_read:
        hidden = len(analysis.columns) - len(wanted) if columns is None else 0
        for text in _below(analysis, name, any_rows, hidden, is_caveat):
            note(text)


def _wanted(
    analysis: Analysis, columns: str | None, order: str | None, printing: Printing
) -> list[str]:
    """Return the columns to print: those asked for, else the main ones of what is read at once."""
    if columns is None and printing.to_read:
        return list(dict.fromkeys([*analysis.main, *([order] if order else [])]))
    if columns is None or columns == "all":
        return [column.name for column in analysis.columns]
    return [_column(analysis, name) for name in columns.split(",")]


def _in_blocks(analysis: Analysis, columns: str | None, printing: Printing) -> bool:
    """Tell whether somebody reads findings, and asks for no columns of theirs."""
    if analysis.name != "findings" or columns is not None:
        return False
    from traceweave.cli.blocks import FORMATS

    return printing.format_ in FORMATS


def _below(
    analysis: Analysis, name: str, any_rows: bool, hidden: int, is_caveat: bool
) -> Iterator[str]:
    """Say what a reader of what `name` asks has to know below a table without so many columns, and
    whether its first caveat is of what the table has."""
    if not any_rows:
        has = analysis.grain or "no rows here"
        yield "; it ".join([f"{analysis.name} has {has}", *analysis.requirements])
        return
    if is_caveat:
        yield from analysis.caveats[:1]
    line = f"'traceweave analyze {name} --list' explains"
    if hidden:
        yield f"{words.plural(hidden, 'more column')}: --columns all; {line} them"
    elif analysis.topic != "overview":
        yield f"{line} the columns, --columns chooses some"


def _list(name: str | None, printing: Printing) -> None:
    from traceweave import analyses
    from traceweave.cli import catalog
    from traceweave.cli.names import known_analysis
    from traceweave.cli.output import as_table, print_rows

    if name is not None:
        catalog.print_analysis(known_analysis(name))
    elif printing.to_read:
        catalog.print_catalog()
    else:
        print_rows(as_table(analyses.catalog_rows()), printing)


def _print_sql(name: str | None, values: dict[str, str]) -> None:
    from traceweave import analyses
    from traceweave.cli.names import known_analysis

    if name is None:
        raise UsageError("--sql: of which analysis? type: traceweave analyze NAME --sql")
    analysis = known_analysis(name)
    statements = analyses.script(analysis, analysis.bind(dict(values)))
    click.echo(f"-- {analysis.name}: {analysis.summary}")
    click.echo("".join(f"{statement};\n\n" for statement in statements), nl=False)


def _checked(name: str, values: dict[str, str], database: Path) -> Analysis:
    """Find what is wrong with the arguments before what answers them is loaded."""
    from traceweave.cli.names import known_analysis

    analysis = known_analysis(name)
    analysis.bind(dict(values))
    require(database)
    return analysis


def _column(analysis: Analysis, name: str) -> str:
    """Return the column called `name`, or shown as that: duration is duration_ns."""
    from traceweave.cli.cells import headings

    names = [column.name for column in analysis.columns]
    if not names:  # nobody says
        return name
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
