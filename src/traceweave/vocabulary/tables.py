"""The tables of names, and the SQL that asks them.

A table is a TSV file that answers one question about a name: rows of a pattern (RE2, as DuckDB's
regexp_matches takes it), the class of the names that it matches, and one such name. The first row
that matches decides. Every example is a test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import groupby

_SUFFIX = ".tsv"
_COLUMNS = ["pattern", "class", "example"]


@dataclass(frozen=True)
class Row:
    """Names of one family."""

    pattern: str
    class_: str
    example: str


@dataclass(frozen=True)
class Table:
    """One question about a name, with its answers."""

    name: str
    meaning: str
    """What it answers and what of a name it is matched with: the head of the file."""
    rows: tuple[Row, ...]


@cache
def tables() -> tuple[Table, ...]:
    """Return every table, by name."""
    files = [f for f in resources.files(__package__).iterdir() if f.name.endswith(_SUFFIX)]
    return tuple(
        _parse(file.name.removesuffix(_SUFFIX), file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.name)
    )


def names(table: str, subject: str) -> str:
    """Return SQL for the class that a table has for the name in `subject`, a column or a function
    of one; NULL where no row matches it.

    Tables are long and names repeat: ask each name once, or whether first. Raises ValueError for a
    table that there is not.
    """
    return _case(table, subject)


def with_names(sql: str) -> str:
    """Return a template of Jinja with each `{{ names('table', 'subject') }}` written out."""
    from jinja2 import StrictUndefined, Template  # who asks what is kept needs none of it

    return str(Template(sql, undefined=StrictUndefined).render(names=names))


@cache
def script(package: str, name: str) -> str:
    """Return the SQL in a file of a package, as `with_names` does."""
    text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
    return with_names(text) if "{{" in text else text


def _table(name: str) -> Table:
    found = next((table for table in tables() if table.name == name), None)
    if found is None:
        listed = ", ".join(table.name for table in tables())
        raise ValueError(f"no table of names is called {name!r}; there are {listed}")
    return found


@cache
def _case(name: str, subject: str) -> str:
    """Return the CASE of a table. Rows of one class that follow each other become one pattern."""
    branches = [
        f"WHEN regexp_matches({subject}, {_any_of(rows)}) THEN {_literal(class_)}"
        for class_, rows in groupby(_table(name).rows, key=lambda row: row.class_)
    ]
    return "\n".join(["(CASE", *branches, "END)"])


def _any_of(rows: Iterable[Row]) -> str:
    return _literal("|".join(f"(?:{row.pattern})" for row in rows))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _parse(name: str, text: str) -> Table:
    lines = text.splitlines()
    head = [line.removeprefix("#").strip() for line in lines if line.startswith("#")]
    columns, *rows = [line.split("\t") for line in lines if not line.startswith("#")]
    if columns != _COLUMNS:
        raise ValueError(f"{name}{_SUFFIX}: its columns are {', '.join(_COLUMNS)}")
    return Table(name, " ".join(head), tuple(Row(*row) for row in rows))
