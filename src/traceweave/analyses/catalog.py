"""The catalog: every question that can be asked of a run, one .sql file each.

Its header is a block of comment lines `-- key: value`, in this form (order free, the name first):

    -- analysis: name | what the rows are        the name is the file's stem
    -- answers: the question
    -- topic: one of TOPICS
    -- grain: what one row is
    -- within: rank, 600 bytes per op            if no row needs events of two ranks (batches.py);
                                                 optional; the memory it takes too, if that is much
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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import ClassVar

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

TOPICS = ("overview", "time", "compute", "communication", "parallelism", "clocks")
"""The subjects an analysis can belong to, in the order in which a reader meets them."""

LIST = "'traceweave analyze --list' or run.analyses() in Python lists them all"
"""Where whoever asks for an analysis that does not exist finds those that do."""

_LISTS = dict.fromkeys(("param", "choice", "column"), REPEATED) | dict.fromkeys(
    ("within",), OPTIONAL
)


@dataclass(frozen=True, eq=False)
class Analysis(Statement):
    """One question that can be asked of a run."""

    kind: ClassVar[str] = "analysis"
    allowed: ClassVar[Mapping[str, int]] = MappingProxyType(
        dict.fromkeys(("analysis", "answers", "topic", "grain", "order"), ONCE)
        | _LISTS
        | {"caveat": REPEATED, "main": OPTIONAL}
    )

    @property
    def answers(self) -> str:
        """The question."""
        return self.text("answers")

    @property
    def topic(self) -> str:
        """One of TOPICS."""
        return self.text("topic")

    @property
    def grain(self) -> str:
        """What one row is."""
        return self.text("grain")

    @property
    def main(self) -> tuple[str, ...]:
        """The names of the columns that a table on the terminal has unless more is asked for."""
        return names(self.fields["main"]) or tuple(column.name for column in self.columns)

    @property
    def order(self) -> str:
        """The order of the rows."""
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


@cache
def catalog() -> tuple[Analysis, ...]:
    """Return every analysis, by topic and then by name."""
    analyses = [parse(name, sql) for name, sql in sql_files("").items()]
    return tuple(sorted(analyses, key=lambda a: (TOPICS.index(a.topic), a.name)))


@cache
def rules() -> tuple[Rule, ...]:
    """Return every rule behind `findings`, by topic and then by name."""
    found = [_rule(name) for name in sql_files("rules")]
    return tuple(sorted(found, key=lambda rule: (RULE_TOPICS.index(rule.topic), rule.name)))


@cache
def shared() -> tuple[Shared, ...]:
    """Return the rows that several analyses start from, by name."""
    return tuple(_shared(name) for name in sql_files("shared"))


def find(name: str) -> Analysis:
    """Return the analysis called `name`; raise UsageError, with the nearest name, if none is."""
    known = {analysis.name: analysis for analysis in catalog()}
    if name not in known:
        raise UsageError(f"no such analysis: {name!r}{suggest(name, known)}; {LIST}")
    return known[name]


def called(kind: str, name: str) -> Statement:
    """Return the statement of a kind and name; raise UsageError or KeyError."""
    if kind == "analysis":
        return find(name)
    return _shared(name) if kind == "shared" else _rule(name)


def asked_for(asked: Asked) -> Iterable[Statement]:
    """Return what a template asks for; raise UsageError where there is none."""
    if asked.function == "rules":
        return rules()
    if asked.function == "rule":
        if asked.name not in sql_files("rules"):
            raise UsageError(
                f"no such rule: {asked.name!r}{suggest(asked.name, sql_files('rules'))}"
            )
        return [_rule(asked.name)]
    is_shared = asked.name in sql_files("shared")
    return [_shared(asked.name) if is_shared else find(asked.name)]


def render(
    statement: Statement,
    values: Mapping[str, Value],
    rows: Callable[[Statement, dict[str, Value]], str],
) -> str:
    """Return the SQL of a statement, given the values of parameters that differ from defaults.

    `rows` gives the relation of a part, given such values of its own: those that the template says
    and, of shared rows and rules, those that the statement has itself.
    """
    known = statement.filled(values)

    def param(name: str) -> Value:
        if name not in known:
            raise QueryError(f"{statement.name}: its header has no '-- param: {name} ...'")
        return known[name]

    def relation(asked: Asked, given: Mapping[str, Value | Sql]) -> str:
        found = {}
        for part in statement.find(asked):
            same = [p.name for p in part.parameters if p.name in known]
            own = {} if part.kind == "analysis" else {name: known[name] for name in same}
            found[part] = rows(part, part.bind({**own, **given}))
        if asked.function == "rules":
            return f"({union_of_rules(found)})"
        (table,) = found.values()
        return table

    return statement.template.render(param, relation)


def parse(name: str, sql: str) -> Analysis:
    """Read the header of the file with stem `name`; raise ValueError if it is malformed."""
    return Analysis(name, parse_header(Analysis, name, sql), sql, asked_for)


@cache
def _shared(name: str) -> Shared:
    sql = sql_files("shared")[name]
    return Shared(name, parse_header(Shared, name, sql), sql, asked_for)


@cache
def _rule(name: str) -> Rule:
    sql = sql_files("rules")[name]
    return Rule(name, parse_header(Rule, name, sql), sql, asked_for)
