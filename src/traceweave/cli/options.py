"""Options that mean the same on every command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from traceweave.cli.names import is_run
from traceweave.errors import UsageError, suggest
from traceweave.locations import shown
from traceweave.targets import FileKind, check_target

FORMATS = ("table", "csv", "json", "markdown", "parquet")

ENDINGS = {".csv": "csv", ".json": "json", ".md": "markdown", ".parquet": "parquet"}
"""The format that the name of a file asks for."""

KINDS = {
    "table": FileKind.TEXT,
    "csv": FileKind.TEXT,
    "json": FileKind.JSON,
    "markdown": FileKind.TEXT,
    "parquet": FileKind.PARQUET,
}
"""What a file of each format is."""

PAGES = (".html", ".htm")
"""Endings of names of pages, which some commands write."""

_TEXT = ("", ".txt")
"""Endings of names that ask for none: a table unless --format says otherwise."""

MOST_ROWS = 200
"""Rows of a table unless --rows says otherwise."""

F = TypeVar("F", bound=Callable[..., Any])
Command = click.Command


@dataclass(frozen=True)
class Printing:
    """How and where rows are printed."""

    format_: str = "table"
    """One of FORMATS."""
    output: Path | None = None
    """The file; None is stdout."""
    most_rows: int | None = 0
    """How many rows a table on stdout has; 0: all; None: as many as usual."""
    full_names: bool = False
    """Whether names in it are as they were recorded, and it as wide as they are."""
    only_filled: bool = False
    """Whether it leaves out columns without any value."""

    @property
    def to_read(self) -> bool:
        """Whether it is a table that somebody reads at once: what is long is shortened."""
        return self.format_ == "table" and self.output is None

    @property
    def limit(self) -> int | None:
        """How many rows are printed; None: all."""
        if not self.to_read:
            return None
        return MOST_ROWS if self.most_rows is None else self.most_rows or None


def require(database: Path) -> None:
    """Raise DatabaseError at once if no run is there, before what asks it is loaded."""
    if not is_run(database):
        from traceweave.store.database import open_database

        open_database(database).close()


def existing(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    """Return a database argument as it is; raise DatabaseError if no run is there."""
    if value is not None:
        require(value)
    return value


def _not_stdout(_: click.Context, __: click.Parameter, value: Path | None) -> Path | None:
    return None if str(value) == "-" else value


DATABASE = click.argument("database", type=click.Path(path_type=Path), callback=existing)


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """A choice that guesses which one a misspelt value means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the choice; raise BadParameter with the nearest one."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            hint = suggest(str(value), map(str, self.choices))
            raise click.BadParameter(error.message.rstrip(".") + hint, ctx, param) from error


def on_dask(what: str, per: str) -> Callable[[F], F]:
    """Return what adds --dask to a command that does something on Dask's workers, of which a
    machine alone has one per what.
    """
    return click.option(
        "--dask",
        is_flag=False,
        flag_value="auto",
        metavar="[WHERE]",
        help=f"{what}: 'local' (one per {per} on this machine), tcp://HOST:PORT"
        " or a scheduler file; without WHERE, what DASK_SCHEDULER_ADDRESS says, else local.",
    )


_PRINTING = (
    click.option(
        "--full-names",
        is_flag=True,
        help="Names in a table as they were recorded, however wide it gets. Files and other"
        " formats always have them.",
    ),
    click.option(
        "--rows",
        "most_rows",
        type=click.IntRange(min=0),
        show_default=str(MOST_ROWS),
        help="Maximum number of rows in a table; 0: all. Files and other formats have all.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_not_stdout,
        help="Write to this file instead of stdout; '-' is stdout. A name that ends in .csv,"
        " .json, .md or .parquet decides the format.",
    ),
    click.option(
        "-f",
        "--format",
        "format_",
        type=OneOf(FORMATS),
        show_default="table, or what FILE ends with",
        help="table and markdown use readable units, the others raw values (times in ns).",
    ),
)
"""The last first, as decorators are applied."""


def printing_rows(function: F, *, pages: bool = False) -> F:
    """Add --format, --output, --rows and --full-names to a command, which gets a `Printing`.

    With `pages` the file may also be a page, which the command writes itself.
    """

    @wraps(function)
    def command(
        *arguments: Any,
        format_: str | None,
        output: Path | None,
        most_rows: int | None,
        full_names: bool,
        **others: Any,
    ) -> Any:
        page = pages and output is not None and output.suffix.lower() in PAGES
        found = format_ or "table" if page else _format_of(output, format_, pages)
        if most_rows and (found != "table" or output is not None):
            raise UsageError(
                "--rows is for tables on the terminal; files and other formats have all rows: drop"
                " it, or write LIMIT in a query"
            )
        if output is not None:  # before what asks the run is loaded
            check_target(output, FileKind.PAGE if page else KINDS[found])
        printing = Printing(found, output, most_rows, full_names)
        return function(*arguments, printing=printing, **others)

    decorated = cast("F", command)
    for option in _PRINTING:
        decorated = option(decorated)
    return decorated


def _format_of(output: Path | None, given: str | None, pages: bool) -> str:
    """Return the format that is asked for, by name or by the ending of the file."""
    ending = "" if output is None else output.suffix.lower()
    said = ENDINGS.get(ending)
    if given is not None and said not in (None, given):
        raise UsageError(
            f"{shown(output or '')}: the name says {said}, --format says {given}; drop --format"
            " or name the file otherwise"
        )
    if given is None and said is None and ending not in _TEXT:
        raise UsageError(
            f"{shown(output or '')}: {ending} is no format that can be written; name it"
            f" {', '.join([*PAGES[:pages], *ENDINGS])} or .txt, or say --format"
        )
    return given or said or "table"


def example(*lines: str) -> str:
    """Return the epilog that every command's help ends with."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)
