"""Options that mean the same on every command."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

FORMATS = ("table", "csv", "json", "markdown", "parquet")

F = TypeVar("F", bound=Callable[..., Any])
Command = click.Command

DATABASE = click.argument("database", type=click.Path(path_type=Path))


def printing_rows(function: F) -> F:
    """Add --format, --output and --rows to a command that prints rows."""
    for option in (
        click.option(
            "--rows",
            "most_rows",
            type=click.IntRange(min=0),
            default=200,
            show_default=True,
            help="Rows that a table shows at most; 0: all. Other formats always have all.",
        ),
        click.option(
            "-o",
            "--output",
            type=click.Path(path_type=Path, dir_okay=False),
            help="Write to this file instead of stdout; '-' is stdout.",
        ),
        click.option(
            "-f",
            "--format",
            "format_",
            type=click.Choice(FORMATS),
            default="table",
            show_default=True,
            help="table and markdown have human units, the others raw values (times in ns).",
        ),
    ):
        function = option(function)
    return function


def example(*lines: str) -> str:
    """Return the epilog that every command's help ends with."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
