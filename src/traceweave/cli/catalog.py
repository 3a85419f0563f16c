"""The analyses in words: all of them in a few lines each, or one with everything it says."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from traceweave import analyses
from traceweave.cli.layout import WIDTH

if TYPE_CHECKING:
    import pyarrow as pa


def catalog_rows() -> pa.RecordBatchReader:
    """Return one row per analysis, for programs."""
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


def print_catalog() -> None:
    """Print every analysis with its question and parameters."""
    for analysis in analyses.catalog():
        click.echo(textwrap.fill(f"{analysis.name}: {analysis.answers}", WIDTH))
        for parameter in analysis.parameters:
            choices = ", ".join(choice for choice, _ in parameter.choices)
            meaning = f"{parameter.meaning} ({choices})" if choices else parameter.meaning
            _item(f"-p {parameter.name}={parameter.default}  {meaning}")


def print_analysis(analysis: analyses.Analysis) -> None:
    """Print all that an analysis says of itself: parameters, columns, what it cannot tell."""
    click.echo(textwrap.fill(f"{analysis.name}: {analysis.summary}", WIDTH))
    click.echo(textwrap.fill(analysis.answers, WIDTH))
    click.echo(textwrap.fill(f"Rows: {analysis.grain}; ordered by {analysis.order}.", WIDTH))
    if analysis.parameters:
        click.echo("\nParameters")
    for parameter in analysis.parameters:
        _item(f"-p {parameter.name}={parameter.default}  {parameter.meaning}")
        for choice, meaning in parameter.choices:
            _item(f"{choice}: {meaning}", indent=8)
    click.echo("\nColumns")
    for column in analysis.columns:
        _item(f"{column.name}  {column.type}: {column.meaning}")
    click.echo("\nCaveats")
    for caveat in analysis.caveats:
        _item(caveat)


def _item(text: str, indent: int = 4) -> None:
    first, rest = " " * indent, " " * (indent + 4)
    click.echo(textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=rest))
