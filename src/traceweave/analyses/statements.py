"""A documented SELECT: a .sql file that begins with a header of comment lines `-- key: value`, then
a template (templates.py)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import ClassVar, TypeAlias

from traceweave.analyses.parameters import Parameter, Value, parse_parameters
from traceweave.analyses.templates import Asked, Template, template
from traceweave.errors import QueryError, suggest
from traceweave.store.schema import Column, parse_column

ONCE, OPTIONAL, REPEATED = range(3)
"""How often a key may stand in a header: once, once or not at all, any number of times."""

Fields: TypeAlias = Mapping[str, tuple[str, ...]]
"""The lines of a header by their key."""

_NEED = re.compile(r"(?:(ref|rule)\('(\w+)'\)|(\w+))(?:, |$)")
_BYTES_PER_OP = re.compile(r"(\d+) bytes per op")
_USUAL_BYTES_PER_OP = 40
"""Of times of GPU ops that are swept in memory; all else can be spilled."""


@dataclass(frozen=True, eq=False)
class Statement:
    """One SELECT and what its header says of it."""

    kind: ClassVar[str]
    """The key of the header's first line."""
    allowed: ClassVar[Mapping[str, int]]
    """The keys of the header and how often each may occur."""

    name: str
    fields: Fields
    sql: str
    """The whole file, header included."""
    find: Callable[[Asked], Iterable[Statement]]
    """Returns what a template asks for by name; raises UsageError where there is none."""
    is_own: bool = False
    """Whether it is the user's, in whose files only the name is compulsory."""

    @property
    def summary(self) -> str:
        """What its rows are, or what it is about; its name if nobody says."""
        return self.text(self.kind).split(" | ", 1)[-1]

    @cached_property
    def template(self) -> Template:
        """Its SELECT, which asks for what it reads."""
        lines = self.sql.splitlines()
        header = next((n for n, line in enumerate(lines) if not line.startswith("-- ")), len(lines))
        return template(f"{self.name}.sql", "\n".join(lines[header:]))

    @cached_property
    def parts(self) -> tuple[Statement, ...]:
        """What it reads the rows of."""
        asked = (one for one in self.template.asked if one.function != "param")
        return tuple(dict.fromkeys(part for one in asked for part in self.find(one)))

    @cached_property
    def needed(self) -> frozenset[str]:
        """Public relations without the rows of any of which it has none."""
        return frozenset(name for _, _, name in self._needs() if name)

    @cached_property
    def needed_parts(self) -> frozenset[Statement]:
        """Statements without the rows of any of which it has none."""
        asked = [Asked(function, name) for function, name, _ in self._needs() if function]
        return frozenset(part for one in asked for part in self.find(one))

    def _needs(self) -> list[tuple[str, str, str]]:
        stated = self.fields.get("needs", ()) if self.may_give else ()
        return _NEED.findall("".join(stated))

    @property
    def within_rank(self) -> bool:
        """Whether the rows of a rank are made of what that rank did and what all have in common:
        they are the same where no other rank's events are there.
        """
        return bool(self.fields.get("within") and self.columns)

    @property
    def bytes_per_op(self) -> int:
        """The memory that it takes for each GPU or host op of the ranks that it is asked of."""
        stated = _BYTES_PER_OP.search("".join(self.fields.get("within", ())))
        return int(stated[1]) if stated else _USUAL_BYTES_PER_OP

    @property
    def through(self) -> str:
        """What of inputs.py makes its rows of those that it selects; '' where they are the rows."""
        return next(iter(self.fields.get("through", ())), "")

    @cached_property
    def own_parameters(self) -> tuple[Parameter, ...]:
        """Those of its header, in the order of that."""
        return parse_parameters(self.fields["param"], self.fields["choice"])

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """What it can be given: in the order of the header, then what its parts can be that are no
        analyses.
        """
        known = {parameter.name: parameter for parameter in self.own_parameters}
        try:
            theirs = [p for part in self.parts for p in part.parameters if part.kind != "analysis"]
        except RecursionError:
            raise QueryError(f"{self.name} reads itself, by what it reads") from None
        for parameter in theirs:
            known.setdefault(parameter.name, parameter)
        return tuple(known.values())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its rows; none where its kind has them in common, as rules do."""
        return tuple(parse_column(text) for text in self.fields.get("column", ()))

    @property
    def may_give(self) -> tuple[Column, ...]:
        """The columns that its rows have at most."""
        return self.columns

    def typed(self) -> str:
        """Return what selects its columns, by name, from rows whose types are about theirs."""
        return ", ".join(f"CAST({c.name} AS {c.type}) AS {c.name}" for c in self.columns) or "*"

    def text(self, key: str) -> str:
        """Return a field that occurs once; '' if it is optional and not there."""
        return next(iter(self.fields[key]), "")

    def bind(self, values: Mapping[str, object]) -> dict[str, Value]:
        """Return the values of parameters that differ from their defaults.

        Raises QueryError for a name that is no parameter, or a value that does not fit.
        """
        if not values:  # what is kept is found without its parameters
            return {}
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in values:
            if name not in known:
                listed = ", ".join(known) or "none"
                hint = self._of_a_column(name) or suggest(name, known)
                raise QueryError(
                    f"{self.name} has no parameter {name!r}{hint}; its parameters: {listed}"
                )
        checked = {name: known[name].check(value) for name, value in values.items()}
        return {name: value for name, value in checked.items() if value != known[name].default}

    def filled(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return a value for every parameter, given those that differ from their defaults."""
        return {p.name: values.get(p.name, p.default) for p in self.parameters}

    def _of_a_column(self, name: str) -> str:
        """Say how rows are chosen by a column, if that is what a name is of."""
        if not any(column.name == name for column in self.columns):
            return ""
        return (
            f": it is a column; traceweave query run.duckdb 'FROM {self.name}() WHERE {name} = …'"
        )


def names(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that header lines list, separated by commas."""
    return tuple(name for line in lines for name in line.split(", "))


def parse_header(of: type[Statement], name: str, sql: str) -> Fields:
    """Read the header of the file with stem `name`; raise ValueError if it is malformed."""
    fields: dict[str, list[str]] = {key: [] for key in of.allowed}
    for line in sql.splitlines():
        if not line.startswith("-- "):
            break
        key, separator, value = line.removeprefix("-- ").partition(": ")
        if not separator or key not in fields:
            raise ValueError(f"{name}.sql: no header field: {line!r}")
        fields[key].append(value.strip())
    wrong = [key for key, often in of.allowed.items() if not _fits(often, len(fields[key]))]
    if wrong:
        raise ValueError(f"{name}.sql: these belong in the header once: {', '.join(wrong)}")
    stem = fields[of.kind][0].split(" | ", 1)[0]
    if stem != name:
        raise ValueError(f"{name}.sql: the header says it is {stem!r}")
    return {key: tuple(lines) for key, lines in fields.items()}


def _fits(often: int, lines: int) -> bool:
    return often == REPEATED or lines == 1 or (often == OPTIONAL and lines == 0)


@cache
def sql_files(folder: str) -> dict[str, str]:
    """Return the text of every .sql file in a folder of this package ('': itself), by stem."""
    files = resources.files(__package__).joinpath(folder).iterdir()
    return {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(files, key=lambda file: file.name)
        if file.name.endswith(".sql")
    }
