"""traceweave analyze: the named analyses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceweave.cli.options import example, printing_rows

if TYPE_CHECKING:
    import pyarrow as pa


@click.command(
    short_help="Print the rows of a named analysis.",
    epilog=example(
        "traceweave analyze --list",
        "traceweave analyze breakdown run.duckdb",
        "traceweave analyze breakdown run.duckdb -p window=span --format csv",
    ),
)
@click.argument("name", required=False)
@click.argument("database", required=False, type=click.Path(path_type=Path))
@click.option("--list", "list_", is_flag=True, help="List the analyses with their parameters.")
@click.option(
    "-p",
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Give a parameter of the analysis a value; may be repeated.",
)
@printing_rows
def analyze(
    name: str | None,
    database: Path | None,
    list_: bool,
    params: tuple[str, ...],
    format_: str,
    output: Path | None,
    most_rows: int,
) -> None:
    """Print the rows of the analysis NAME of DATABASE."""
    from traceweave import api
    from traceweave.cli.output import print_rows

    if list_ and format_ == "table" and output is None:
        _print_catalog()
        return
    if list_:
        print_rows(_catalog(), format_, output)
        return
    if name is None or database is None:
        raise click.UsageError("give NAME and DATABASE, or --list", click.get_current_context())
    values = dict(_parameter(text) for text in params)
    with api.open(database) as run:
        print_rows(run.stream_analysis(name, **values), format_, output, most_rows)


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--param")
    return name, value


def _catalog() -> pa.RecordBatchReader:
    from traceweave import analyses
    from traceweave.cli.output import as_table

    return as_table(
        [
            {
                "name": analysis.name,
                "topic": analysis.topic,
                "answers": analysis.answers,
                "parameters": ", ".join(f"{p.name}={p.default}" for p in analysis.parameters),
            }
            for analysis in analyses.catalog()
        ]
    )


def _print_catalog() -> None:
    import textwrap

    from traceweave import analyses
    from traceweave.cli.layout import WIDTH

    for analysis in analyses.catalog():
        click.echo(textwrap.fill(f"{analysis.name}: {analysis.answers}", WIDTH))
        for parameter in analysis.parameters:
            choices = ", ".join(choice for choice, _ in parameter.choices)
            meaning = f"{parameter.meaning} ({choices})" if choices else parameter.meaning
            text = f"-p {parameter.name}={parameter.default}  {meaning}"
            click.echo(textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent=" " * 8))
