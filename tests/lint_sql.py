"""Lints the SQL that runs: `python -m tests.lint_sql`, which `make test` does too.

Analyses, rules and shared rows are linted as `traceweave analyze X --sql` prints them, macros
without the CREATE around them, other files as they are. The rules are in pyproject.toml."""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from sqlfluff.core import FluffConfig, Linter

import traceweave
from traceweave.analyses.catalog import catalog, render, rules, shared
from traceweave.analyses.runner import definitions
from traceweave.explorer.asking import queries
from traceweave.vocabulary import with_names

ROOT = Path(traceweave.__file__).parent
SOUND = ROOT.parent.parent / ".cache" / "sound_sql.json"
"""What nothing was wrong with the last time, as mypy and ruff keep it: parsing takes 20 s."""

UNPARSED = {
    "analysis ranges": "RANGE BETWEEN CURRENT ROW AND a column FOLLOWING",
    "analysis sequences": "ROWS BETWEEN CURRENT ROW AND an expression FOLLOWING",
    "shared exchanged": "a lambda of two parameters that returns a struct",
    "store/tables/events.sql": "a column's USING COMPRESSION",
    "tw_which_steps": "slices of lists such as [-2:]",
}
"""What the dialect cannot parse, and what of DuckDB's syntax it does not know."""


class Fault(NamedTuple):
    """What is wrong with some SQL."""

    where: str
    line: int
    rule: str
    said: str

    def __str__(self) -> str:
        return f"{self.where}: line {self.line} as rendered: {self.said} [{self.rule}]"


def every_sql() -> dict[str, str]:
    """Return all SQL of the product, by the name of the file or of what it is the text of."""
    found = {
        f"{statement.kind} {statement.name}": render(statement, {}, lambda part, _: part.name)
        for statement in (*catalog(), *shared(), *rules())
    }
    found |= {name: definition.select() for name, definition in definitions().items()}
    found |= {f"explorer {name}": with_names(sql) for name, sql in queries().items()}
    for path in sorted(ROOT.rglob("*.sql")):
        name = path.relative_to(ROOT)
        in_parts = name.parts[0] == "analyses" or name.parts[:2] == ("explorer", "queries")
        if not in_parts and name.name != "holds.sql":
            found[str(name)] = with_names(path.read_text(encoding="utf-8"))
    return found


def faults(name: str, sql: str) -> Iterator[Fault]:
    """Yield what is wrong with one text."""
    # the dialect knows no values of prepared statements
    prepared = re.sub(r"\$\w+", "0", sql)
    for found in _linter().lint_string(prepared.rstrip() + "\n").get_violations():
        code, said = found.rule_code(), found.desc()
        named = re.search(r'"(\w+)"', said)
        # macros are given the names of relations as text
        is_given = code == "ST03" and named is not None and f"'{named[1]}'" in sql
        if not is_given:
            yield Fault(name, found.line_no, code, said.split(". Expected", 1)[0])


@cache
def _linter() -> Linter:
    return Linter(config=FluffConfig.from_path(str(ROOT.parent.parent)))


def _all_faults(text: tuple[str, str]) -> list[Fault]:
    return list(faults(*text))


def main() -> int:
    """Print what is wrong with the SQL; return 1 if anything is."""
    texts = {_mark(sql): (name, sql) for name, sql in every_sql().items() if name not in UNPARSED}
    sound = set(json.loads(SOUND.read_text())) if SOUND.exists() else set()
    asked = {mark: text for mark, text in texts.items() if mark not in sound}
    with Pool() as pool:
        found = dict(zip(asked, pool.imap(_all_faults, asked.values()), strict=True))
    for faults_of in found.values():
        for fault in faults_of:
            print(fault)
    SOUND.parent.mkdir(exist_ok=True)
    SOUND.write_text(json.dumps([mark for mark in texts if not found.get(mark)]))
    return 1 if any(found.values()) else 0


def _mark(sql: str) -> str:
    """Return what tells a text, and those who judge it, from others."""
    return hashlib.sha256(f"{_judges()} {sql}".encode()).hexdigest()


@cache
def _judges() -> str:
    rules = (ROOT.parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    return f"{version('sqlfluff')} {Path(__file__).read_text(encoding='utf-8')} {rules}"


if __name__ == "__main__":
    sys.exit(main())
