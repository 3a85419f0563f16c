"""The analyses in words: all of them by their questions, or one with everything it says."""

from __future__ import annotations

import click

from traceweave import analyses
from traceweave.analyses.reference import text_item
from traceweave.cli.output import text_width


def print_catalog() -> None:
    """Print every analysis with its question, by topic."""
    topic, width = "", text_width()
    for analysis in analyses.catalog():
        if analysis.topic != topic:
            click.echo(f"{chr(10) if topic else ''}{analysis.topic.capitalize()}\n")
            topic = analysis.topic
        click.echo(text_item(f"{analysis.name}: {analysis.answers}", width))
    click.echo("\nThe parameters and columns of one: traceweave analyze NAME --list")


def print_analysis(analysis: analyses.Analysis) -> None:
    """Print all that an analysis says of itself: parameters, columns, what it cannot tell."""
    click.echo(analyses.analysis_text(analysis, _option, text_width()))


def _option(parameter: analyses.Parameter) -> str:
    return f"-p {parameter.name}={parameter.default}"
