"""The catalog of analyses: one .sql file per question, described by the header it begins with.

A header is a block of comment lines `-- key: value`, in this form (order free, `analysis` first):

    -- analysis: name | what the rows are        the name is the file's stem
    -- answers: the question
    -- topic: one of TOPICS
    -- grain: what one row is
    -- reads: relation, relation                 public relations only
    -- needs: name, name                         tables that inputs.py makes first; optional
    -- param: name TYPE = default | meaning
    -- choice: name 'value' | meaning            one per value, if the values are listed
    -- column: name TYPE | meaning, unit         in the order of the result
    -- order: column, column DESC
    -- caveat: what the numbers cannot tell
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import SupportsIndex, TypeAlias

from traceweave.errors import QueryError, UsageError, suggest
from traceweave.store.schema import Column, parse_column

Value: TypeAlias = str | int | float | bool | None
"""What a parameter of an analysis can hold."""

TOPICS = ("overview", "time", "compute", "communication", "parallelism", "clocks")
"""The subjects an analysis can belong to, in the order in which a reader meets them."""

LIST = "'traceweave analyze --list' or run.analyses() in Python lists them all"
"""Where whoever asks for an analysis that does not exist finds those that do."""

_SINGLE = ("analysis", "answers", "topic", "grain", "reads", "order")
_OPTIONAL = ("needs",)
_REPEATED = ("param", "choice", "column", "caveat")


@dataclass(frozen=True)
class Parameter:
    """One named parameter of an analysis: its SQL type, default, and values if those are listed."""

    name: str
    type: str
    default: Value
    meaning: str
    choices: tuple[tuple[str, str], ...] = ()
    """The allowed values with their meaning; empty if every value of the type is allowed."""

    def check(self, value: object) -> Value:
        """Return `value` as this parameter takes it, read from text where it is text.

        Raises QueryError if it does not fit the type or is not one of the choices.
        """
        if value is None and self.default is None:
            return None
        try:
            checked = _convert(self.type, value)
        except (TypeError, ValueError, OverflowError) as error:
            message = f"parameter {self.name} takes {self.type}, not {value!r}"
            raise QueryError(f"{message}; default: {self.default}") from error
        allowed = [choice for choice, _ in self.choices]
        if allowed and checked not in allowed:
            hint = suggest(str(value), allowed)
            message = f"parameter {self.name} cannot be {value!r}{hint}"
            raise QueryError(f"{message}; it is one of: {', '.join(allowed)}")
        return checked


@dataclass(frozen=True)
class Analysis:
    """One question that can be asked of a run: its SQL and everything its header says."""

    name: str
    summary: str
    answers: str
    topic: str
    grain: str
    reads: tuple[str, ...]
    needs: tuple[str, ...]
    """Tables tw_<name> that inputs.py makes before the statement runs."""
    parameters: tuple[Parameter, ...]
    columns: tuple[Column, ...]
    order: str
    caveats: tuple[str, ...]
    sql: str
    """The whole file, header included: one SELECT with parameters written $name."""

    @property
    def requirements(self) -> tuple[str, ...]:
        """What has to be recorded for it to have rows, as its caveats say: 'needs …'."""
        return tuple(caveat for caveat in self.caveats if caveat.startswith("needs "))

    def bind(self, values: dict[str, object]) -> dict[str, Value]:
        """Return a value for every parameter, defaults filled in.

        Raises QueryError for a name that is no parameter, or a value that does not fit.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in values:
            if name not in known:
                listed = ", ".join(known) or "none"
                hint = suggest(name, known)
                raise QueryError(
                    f"{self.name} has no parameter {name!r}{hint}; its parameters: {listed}"
                )
        return {
            name: parameter.check(values[name]) if name in values else parameter.default
            for name, parameter in known.items()
        }


@cache
def catalog() -> tuple[Analysis, ...]:
    """Return every analysis, by topic and then by name."""
    files = resources.files(__package__).iterdir()
    analyses = [
        parse(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".sql")
    ]
    return tuple(sorted(analyses, key=lambda a: (TOPICS.index(a.topic), a.name)))


def find(name: str) -> Analysis:
    """Return the analysis called `name`; raise UsageError, with the nearest name, if none is."""
    known = {analysis.name: analysis for analysis in catalog()}
    if name not in known:
        raise UsageError(f"there is no analysis {name!r}{suggest(name, known)}; {LIST}")
    return known[name]


def parse(name: str, sql: str) -> Analysis:
    """Read the header of the file with stem `name`; raise ValueError if it is malformed."""
    fields = _fields(name, sql)
    stem, summary = fields["analysis"][0].split(" | ", 1)
    if stem != name:
        raise ValueError(f"{name}.sql: the header says it is {stem!r}")
    choices = [_parse_choice(text) for text in fields["choice"]]
    return Analysis(
        name=name,
        summary=summary,
        answers=fields["answers"][0],
        topic=fields["topic"][0],
        grain=fields["grain"][0],
        reads=tuple(fields["reads"][0].split(", ")),
        needs=tuple(name for names in fields["needs"] for name in names.split(", ")),
        parameters=tuple(_parse_parameter(text, choices) for text in fields["param"]),
        columns=tuple(parse_column(text) for text in fields["column"]),
        order=fields["order"][0],
        caveats=tuple(fields["caveat"]),
        sql=sql,
    )


def _fields(name: str, sql: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {key: [] for key in (*_SINGLE, *_OPTIONAL, *_REPEATED)}
    for line in sql.splitlines():
        if not line.startswith("-- "):
            break
        key, separator, value = line.removeprefix("-- ").partition(": ")
        if not separator or key not in fields:
            raise ValueError(f"{name}.sql: no header field: {line!r}")
        fields[key].append(value.strip())
    wrong = [key for key in _SINGLE if len(fields[key]) != 1]
    if wrong:
        raise ValueError(f"{name}.sql: these belong in the header once: {', '.join(wrong)}")
    return fields


def _parse_parameter(text: str, choices: list[tuple[str, str, str]]) -> Parameter:
    declaration, meaning = text.split(" | ", 1)
    typed, default = declaration.split(" = ", 1)
    name, type_ = typed.split(" ", 1)
    return Parameter(
        name=name,
        type=type_,
        default=_parse_literal(type_, default),
        meaning=meaning,
        choices=tuple((value, text) for of, value, text in choices if of == name),
    )


def _parse_choice(text: str) -> tuple[str, str, str]:
    choice = parse_column(text)
    return choice.name, choice.type.strip("'"), choice.meaning


def _parse_literal(type_: str, text: str) -> Value:
    return None if text == "NULL" else _convert(type_, text.strip("'"))


def _convert(type_: str, value: object) -> Value:
    if isinstance(value, str):
        return _from_text(type_, value)
    if type_ == "BOOLEAN" and isinstance(value, bool):
        return value
    if type_ in ("BIGINT", "DOUBLE") and not isinstance(value, bool):
        if type_ == "DOUBLE" and isinstance(value, float):
            return value
        if isinstance(value, SupportsIndex):
            return operator.index(value)
    raise TypeError


def _from_text(type_: str, text: str) -> Value:
    if type_ == "VARCHAR":
        return text
    if type_ == "BOOLEAN":
        return ("false", "true").index(text.lower()) == 1
    return float(text) if type_ == "DOUBLE" else int(text)
