"""What a comparison found: its tables, the same in words, and as a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceweave.comparison.budget import StepTime
from traceweave.comparison.comparability import Comparability
from traceweave.comparison.sentences import method, samples, sentences
from traceweave.comparison.side import Side, unit_of
from traceweave.comparison.tables import BRIEF, SHORT, TABLES, meaning_of
from traceweave.errors import UsageError, suggest
from traceweave.markup import table as as_html
from traceweave.words import cell

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Comparison:
    """A new run beside a base. Differences are new - base; times are ns."""

    comparability: Comparability
    """Whether any difference can be read as the effect of a change: to be looked at first."""
    base: Side
    new: Side
    time: StepTime
    tables: dict[str, pa.Table]
    """One Arrow table per name in TABLES; docs/compare-and-check.md explains the columns."""

    @property
    def verdict(self) -> str:
        """'same', 'slower', 'faster', 'not significant' or 'not testable': the step time."""
        return self.time.verdict

    @property
    def words(self) -> tuple[str, ...]:
        """What was found, in sentences: whether the runs can be compared, the step time, the rest.

        The last ones say which steps count, and what the verdicts rest on. Of runs that are not
        comparable there are none but why not, and both step times.
        """
        alike = not self.comparability.reasons
        found = sentences(self.base, self.new, self.time, self.tables, alike=alike)
        if not alike:
            return (*self.comparability.sentences, *found)
        rests_on = (*samples(self.base, self.new), *method(self.time))
        return (*self.comparability.sentences, *found, *rests_on)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values, as `--format json` prints it."""
        tables = {name: table.to_pylist() for name, table in self.tables.items()}
        facts = tables.pop("comparability")
        return {
            "comparability": {"verdict": self.comparability.verdict, "facts": facts},
            "base": self.base.name,
            "new": self.new.name,
            "verdict": self.verdict,
            "smallest_change": self.time.smallest_change,
            "words": list(self.words),
            "tables": tables,
        }

    def table(self, name: str) -> pa.Table:
        """Return a table. Raises UsageError for a name that is not in TABLES."""
        if name not in self.tables:
            hint = suggest(name, TABLES) or f"; available: {', '.join(TABLES)}"
            raise UsageError(f"no such table: {name!r}{hint}")
        return self.tables[name]

    def brief(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the first rows and the main columns of each table that has rows.

        Of runs that are not comparable it is `comparability` alone.
        """
        for name, table in self.tables.items():
            facts = name == "comparability"
            if len(table) and (facts or self.comparability.verdict != "not comparable"):
                shown = table.select(BRIEF.get(name, table.schema.names))
                yield name, shown if facts else shown.slice(0, SHORT)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what was found in words, then `brief`."""
        parts = [f"<p>{'<br>'.join(map(escape, self.words))}</p>"]
        for name, table in self.brief():
            rows = [
                [cell(column, value) for column, value in row.items()] for row in table.to_pylist()
            ]
            parts.append(f"<p><b>{name}</b>: {escape(self.meaning(name))}</p>")
            parts.append(as_html(table.schema.names, rows))
        return "".join(parts)

    def meaning(self, name: str) -> str:
        """Say in a line what a table holds."""
        return meaning_of(name, unit_of(self.base, self.new))

    def report(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write one self-contained HTML page and return its path.

        `title` is its heading; without it, the names of both runs are.
        """
        from traceweave.comparison.page import write_page

        sides = self.base, self.new
        write_page(Path(path), self.comparability, *sides, self.time, self.tables, title)
        return Path(path)
