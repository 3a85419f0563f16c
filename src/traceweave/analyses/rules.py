"""The rules behind the analysis `findings`: one .sql file in rules/ per thing that can be wrong.

A rule is one SELECT with a header, as an analysis is:

    -- rule: name | what it is about, for a headline       the name is the file's stem
    -- topic: one of RULE_TOPICS
    -- finds: what it finds, what its cost is, when it stays silent
    -- try: what helps
    -- proof: the analysis that shows the rows behind it
    -- page: what on the page shows them, if that is not what the analysis says
    -- shows: what of a timeline it is about: gaps of a cause, ops of a category, waits or transfers
              (of some uses), or steps; then selectors as of scenarios, if it is not about all of
              them; all else is drawn faintly
    -- param, choice, needs: as in an analysis

Its rows are findings: of RULE_COLUMNS it gives those that it has something to say in, in any order.
Of a rule of one's own only the name is compulsory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from traceweave.analyses.parameters import literal
from traceweave.analyses.statements import ONCE, OPTIONAL, REPEATED, Statement
from traceweave.store.schema import Column, no_rows

RULE_TOPICS = (
    *("ranks and waiting", "communication", "idling and copies", "compute", "what costs no time"),
)
"""What findings are about, in the order in which a reader meets them."""

RULE_COLUMNS = (
    Column("title", "VARCHAR", "who and what, in at most 12 words; NULL: what the header says"),
    Column("ranks", "INTEGER[]", "the ranks it is about; NULL: the whole run"),
    Column(
        "group_id",
        "INTEGER",
        "the process group it is about; NULL: none in particular, or several that do the same",
    ),
    Column("cost_ns", "DOUBLE", "what it costs per step, at most; NULL: time is not what it costs"),
    Column("scenario", "VARCHAR", "what fixing it is for what-if; NULL: it cannot be said so"),
    Column("also", "VARCHAR", "what else its scenario takes away; NULL: nothing"),
    Column("ceiling", "VARCHAR", "a scenario that gains at least what fixing it can; NULL: none"),
    Column("remedy", "VARCHAR", "what the advice does, for what-if; NULL: it cannot be said so"),
    Column(
        "otherwise",
        "VARCHAR",
        "advice where remedy gains nothing by replay, or is not replayed; NULL: the same",
    ),
    Column("severity", "VARCHAR", "NULL: by its cost; else at most this"),
    Column("evidence", "VARCHAR", "what was found, in words with its numbers"),
    Column("proof", "VARCHAR", "NULL: the analysis that the header names"),
    Column("shows", "VARCHAR", "NULL: what of a timeline the header says, as its scenario selects"),
    Column("advice", "VARCHAR", "what to try"),
)
"""The columns that a rule may give; `findings` makes its own of them."""


SUBJECTS = {"gaps": (1, 1), "ops": (1, 1), "waits": (0, 1), "transfers": (0, 1), "steps": (0, 0)}
"""What a finding may be about, and how many names say which, at least and at most: a cause, a
category, uses of communication."""


class Subject(NamedTuple):
    """What of a timeline a finding is about."""

    kind: str
    """One of SUBJECTS."""
    which: str = ""
    selectors: str = ""
    """Of scenarios; '': all of them."""


def subject_said(text: str | None) -> Subject | None:
    """Return what a finding or header says it is about; None: nothing in particular.

    Raises ValueError for what no timeline shows.
    """
    if not text or not text.strip():
        return None
    kind, *rest = text.split(maxsplit=1)
    said = "".join(rest)
    which = "".join(word for word in said.split(maxsplit=1)[:1] if "=" not in word)
    selectors = said[len(which) :].strip()
    least, most = SUBJECTS.get(kind, (1, 0))
    if not least <= bool(which) <= most or (selectors and "=" not in selectors.split()[0]):
        raise ValueError(f"no timeline shows {text!r}")
    return Subject(kind, which, selectors)


@dataclass(frozen=True, eq=False)
class Rule(Statement):
    """One thing that can be wrong with a run."""

    kind: ClassVar[str] = "rule"
    allowed: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"rule": ONCE}
        | dict.fromkeys(("topic", "finds", "try", "proof", "page", "shows", "needs"), OPTIONAL)
        | dict.fromkeys(("param", "choice"), REPEATED)
    )

    @property
    def may_give(self) -> tuple[Column, ...]:
        """Those of all rules."""
        return RULE_COLUMNS

    @property
    def topic(self) -> str:
        """One of RULE_TOPICS."""
        return self.text("topic")

    @property
    def finds(self) -> str:
        """What it finds, what its cost is, when it stays silent."""
        return self.text("finds")

    @property
    def advice(self) -> str:
        """What helps; '' where that needs no saying."""
        return self.text("try")

    @property
    def headline(self) -> str:
        """What a finding of it is called that has no title of its own."""
        return self.summary[:1].upper() + self.summary[1:].replace("_", " ")

    @property
    def proof(self) -> str:
        """The analysis that shows the rows behind it."""
        return self.text("proof") or "findings"

    @property
    def subject(self) -> Subject | None:
        """What of a timeline it is about; None: nothing in particular. Raises ValueError."""
        try:
            return subject_said(self.text("shows"))
        except ValueError as error:
            raise ValueError(f"{self.name}.sql: {error}") from error


def union_of_rules(tables: Mapping[Rule, str | None]) -> str:
    """Return a SELECT of what all rules found: rule, what their headers say, and RULE_COLUMNS.

    `tables` names the relation with the rows of each rule; None: it has none.
    """
    said = ("rule", "usual_title", "usual_proof", "usual_shows")
    usual = (Column(name, "VARCHAR", "") for name in said)
    selects = [no_rows((*usual, *RULE_COLUMNS))]
    selects += [
        f"SELECT '{rule.name}' AS rule, {literal(rule.headline)} AS usual_title,"
        f" '{rule.proof}' AS usual_proof, nullif({literal(rule.text('shows'))}, '') AS usual_shows,"
        f" * FROM {table}"
        for rule, table in tables.items()
        if table is not None
    ]
    return "\nUNION ALL BY NAME ".join(selects)
