"""The catalog: every question that can be asked of a run, one .sql file each.

Its header is a block of comment lines `-- key: value`, in this form (order free, the name first):

    -- analysis: name | what the rows are        the name is the file's stem
    -- answers: the question
    -- topic: one of TOPICS
    -- grain: what one row is
    -- page: table-stragglers                    what on the page shows the rows, or what they are
                                                 made of; optional
    -- within: rank, 600 bytes per op            if no row needs events of two ranks (batches.py);
                                                 optional; the memory it takes too, if that is much
    -- needs: relation, ref('name')              without the rows of any of which it has none
                                                 (question.py); optional
    -- param: name TYPE = default | meaning      or the bare name of one in parameters.txt
    -- choice: name 'value' | meaning            one per value, if the values are listed
    -- column: name TYPE | meaning, unit         in the order of the result
    -- main: name, name                          what a table on the terminal has unless more is
                                                 asked for, in this order; optional, else all
    -- order: column, column DESC
    -- caveat: what the numbers cannot tell

Below it is one SELECT, a template (templates.py). It reads public relations and what inputs.py
makes, and calls macros and functions, by their names: DuckDB's parser finds them.
Rows that several of them start from are in shared/, with a header of the same form that begins with
`shared` and has no question, topic, order and caveats; `-- through: name` there names what makes
its rows of those that it selects (inputs.py). `findings` is made of rules/ (rules.py).
What reads shared rows or rules has their parameters too.

A folder of the user's (locations.OWN_ANALYSES) adds to all three; what a file there is, the first
line of its header says, of which the name alone is compulsory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, TypeVar

from traceweave.analyses.parameters import Value
from traceweave.analyses.rules import RULE_TOPICS, Rule, union_of_rules
from traceweave.analyses.statements import (
    ONCE,
    OPTIONAL,
    REPEATED,
    Statement,
    names,
    parse_header,
    sql_files,
)
from traceweave.analyses.templates import Asked, Sql
from traceweave.errors import QueryError, UsageError, suggest
from traceweave.locations import is_elsewhere, own_statements, shown

TOPICS = ("overview", "time", "compute", "communication", "parallelism", "clocks")
"""The subjects an analysis can belong to, in the order in which a reader meets them."""

OWN = "own"
"""The topic of an analysis or rule of the user's that says none."""

LIST = "'traceweave analyze --list' or run.analyses() in Python lists them all"
"""Where whoever asks for an analysis that does not exist finds those that do."""

_LISTS = dict.fromkeys(("param", "choice", "column"), REPEATED) | dict.fromkeys(
    ("within", "needs"), OPTIONAL
)


EXAMPLE = "docs/sql.md has a whole example"

S = TypeVar("S", bound=Statement)


@dataclass(frozen=True, eq=False)
class Analysis(Statement):
    """One question that can be asked of a run."""

    kind: ClassVar[str] = "analysis"
    allowed: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"analysis": ONCE, "caveat": REPEATED}
        | dict.fromkeys(("answers", "topic", "grain", "page", "order", "main", "first"), OPTIONAL)
        | _LISTS
    )

    @property
    def answers(self) -> str:
        """The question; what its rows are if nobody says."""
        return self.text("answers") or self.summary

    @property
    def first(self) -> int | None:
        """How many rows a table has of it unless more are asked for; None: as many as usual."""
        return int(self.text("first")) if self.text("first") else None

    @property
    def topic(self) -> str:
        """One of TOPICS, or OWN."""
        return self.text("topic") or OWN

    @property
    def grain(self) -> str:
        """What one row is; '' if nobody says."""
        return self.text("grain")

    @property
    def main(self) -> tuple[str, ...]:
        """The names of the columns that a table on the terminal has unless more is asked for."""
        return names(self.fields["main"]) or tuple(column.name for column in self.columns)

    @property
    def order(self) -> str:
        """The order of the rows; '' if nobody says."""
        return self.text("order")

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the numbers cannot tell."""
        return self.fields["caveat"]

    @property
    def requirements(self) -> tuple[str, ...]:
        """What has to be recorded for it to have rows, as its caveats say: 'needs …'."""
        return tuple(caveat for caveat in self.caveats if caveat.startswith("needs "))


@dataclass(frozen=True, eq=False)
class Shared(Statement):
    """Rows that several analyses or rules start from; nobody else asks for them."""

    kind: ClassVar[str] = "shared"
    allowed: ClassVar[Mapping[str, int]] = MappingProxyType(
        dict.fromkeys(("shared", "grain"), ONCE) | _LISTS | {"through": OPTIONAL}
    )


class Library:
    """All statements that there are: traceweave's, and the user's own."""

    def __init__(self, own: Mapping[str, str]) -> None:
        for name, sql in own.items():
            if not sql.startswith(("-- analysis: ", "-- rule: ", "-- shared: ")):
                first = f"'-- analysis: {name}', '-- rule: {name}' or '-- shared: {name}'"
                raise UsageError(f"{name}.sql: its first line is none of {first}")
            if not (name.isidentifier() and name.islower()):
                raise UsageError(f"{name}.sql: SQL cannot call it so; name it in small letters")
        self._own = own
        self.mark = hashlib.sha256(repr(own).encode()).hexdigest() if own else ""
        """Tells apart what other statements of the user's make other rows of; '' without any."""

    @cached_property
    def analyses(self) -> dict[str, Analysis]:
        """By name; by topic and then by name."""
        return self._read(Analysis, "", TOPICS)

    @cached_property
    def rules(self) -> dict[str, Rule]:
        """By name; by topic and then by name."""
        return self._read(Rule, "rules", RULE_TOPICS)

    @cached_property
    def shared(self) -> dict[str, Shared]:
        """By name."""
        return self._read(Shared, "shared")

    def _read(self, of: type[S], folder: str, topics: Sequence[str] = ()) -> dict[str, S]:
        ours = sql_files(folder)
        own = {name: sql for name, sql in self._own.items() if sql.startswith(f"-- {of.kind}: ")}
        if taken := ours.keys() & own.keys():
            raise UsageError(f"{min(taken)}.sql: traceweave has such a name; give it another")
        found = [self.read_own(of, name, sql) for name, sql in own.items()]
        for name, sql in ours.items():
            found.append(of(name, parse_header(of, name, sql), sql, self.find))

        def place(one: S) -> tuple[int, str]:
            topic = "".join(one.fields.get("topic", ()))
            return topics.index(topic) if topic in topics else len(topics), one.name

        return {one.name: one for one in sorted(found, key=place)}

    def read_own(self, of: type[S], name: str, sql: str) -> S:
        """Read a statement of the user's; raise UsageError if its header is malformed."""
        try:
            own = of(name, parse_header(of, name, sql), sql, self.find, is_own=True)
        except ValueError as error:
            raise UsageError(f"{error}; {EXAMPLE}") from error
        for key, form, lines in (
            ("param", "name TYPE = default | meaning", "own_parameters"),
            ("column", "name TYPE | meaning", "columns"),
            ("shows", "gaps CAUSE, ops CATEGORY, waits, transfers or steps", "subject"),
        ):
            try:
                if own.fields.get(key):
                    getattr(own, lines)
            except (ValueError, IndexError) as error:
                wrong = f"{name}.sql: a line of the header is not '-- {key}: {form}'"
                raise UsageError(f"{wrong}; {EXAMPLE}") from error
        return own

    def find(self, asked: Asked) -> Iterable[Statement]:
        """Return what a template asks for; raise UsageError where there is none."""
        if asked.function == "rules":
            return self.rules.values()
        if asked.function == "rule":
            if asked.name not in self.rules:
                hint = suggest(asked.name, self.rules)
                raise UsageError(f"no such rule: {asked.name!r}{hint}")
            return [self.rules[asked.name]]
        return [self.shared.get(asked.name) or self.analysis(asked.name)]

    def analysis(self, name: str) -> Analysis:
        """Return an analysis; raise UsageError, with the nearest name, if there is none."""
        if name not in self.analyses:
            hint = suggest(name, self.analyses)
            raise UsageError(f"no such analysis: {name!r}{hint}; {LIST}")
        return self.analyses[name]


def library() -> Library:
    """Return all statements, with those that the user's folder has now."""
    return _library(tuple(own_statements().items()))


@cache
def _library(own: tuple[tuple[str, str], ...]) -> Library:
    return Library(dict(own))


def catalog() -> tuple[Analysis, ...]:
    """Return every analysis, by topic and then by name."""
    return tuple(library().analyses.values())


def rules() -> tuple[Rule, ...]:
    """Return every rule behind `findings`, by topic and then by name."""
    return tuple(library().rules.values())


def shared() -> tuple[Shared, ...]:
    """Return the rows that several analyses start from, by name."""
    return tuple(library().shared.values())


def find(name: str) -> Analysis:
    """Return the analysis called `name`; raise UsageError, with the nearest name, if none is."""
    return library().analysis(name)


def called(kind: str, name: str) -> Statement:
    """Return the statement of a kind and name; raise UsageError or KeyError."""
    if kind == "analysis":
        return find(name)
    return library().shared[name] if kind == "shared" else library().rules[name]


def render(
    statement: Statement,
    values: Mapping[str, Value],
    rows: Callable[[Statement, dict[str, Value]], str],
    found: Callable[[Statement, dict[str, Value]], str | None] | None = None,
) -> str:
    """Return the SQL of a statement, given the values of parameters that differ from defaults.

    `rows` gives the relation of a part, given such values of its own: those that the template says
    and, of shared rows and rules, those that the statement has itself. `found` does so for all that
    rules found, and gives None for a rule that found nothing.
    """
    known = statement.filled(values)

    def param(name: str) -> Value:
        if name not in known:
            raise QueryError(f"{statement.name}: its header has no '-- param: {name} ...'")
        return known[name]

    def relation(asked: Asked, given: Mapping[str, Value | Sql]) -> str:
        makes = found or rows if asked.function == "rules" else rows
        tables = {}
        for part in statement.find(asked):
            same = [p.name for p in part.parameters if p.name in known]
            own = {} if part.kind == "analysis" else {name: known[name] for name in same}
            tables[part] = makes(part, part.bind({**own, **given}))
        if asked.function == "rules":
            of_rules = {part: table for part, table in tables.items() if isinstance(part, Rule)}
            return f"({union_of_rules(of_rules)})"
        (table,) = tables.values()
        return str(table)

    return statement.template.render(param, relation)


def parse(name: str, sql: str) -> Analysis:
    """Read an analysis of the user's with the text of its file; raise UsageError if its header is
    malformed.
    """
    return library().read_own(Analysis, name, sql)


def read_own(path: str | Path) -> Analysis:
    """Read an analysis from a file. Raises UsageError for one without a header, or a wrong one."""
    path = Path(path)
    if is_elsewhere(path):
        raise UsageError(f"{shown(path)}: is read on this machine only; copy it here")
    try:
        sql = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise UsageError(f"{path}: cannot be read: {reason}") from error
    if not sql.startswith("-- "):
        raise UsageError(
            f"{path}: has no header: its first line is '-- analysis: {path.stem} | what the rows"
            f" are'; {EXAMPLE}; without one, ask 'traceweave query run.duckdb - < {path}'"
        )
    return parse(path.stem, sql)
