"""What a comparison found: its tables, the same in words, and as a page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceweave.comparison.budget import StepTime
from traceweave.comparison.sentences import samples, sentences
from traceweave.comparison.side import Side
from traceweave.comparison.tables import TABLES
from traceweave.errors import UsageError, suggest

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Comparison:
    """A new run beside a base. Differences are new - base; times are ns."""

    base: Side
    new: Side
    time: StepTime
    tables: dict[str, pa.Table]
    """One Arrow table per name in TABLES; docs/compare-and-check.md explains the columns."""

    @property
    def verdict(self) -> str:
        """'slower', 'faster', 'not significant' or 'not testable': the step time."""
        return self.time.verdict

    @property
    def words(self) -> tuple[str, ...]:
        """What was found, in sentences; the first is the verdict."""
        found = sentences(self.base, self.new, self.time, self.tables)
        return (*found, *samples(self.base, self.new))

    def table(self, name: str) -> pa.Table:
        """Return a table. Raises UsageError for a name that is not in TABLES."""
        if name not in self.tables:
            hint = suggest(name, TABLES) or f"; there are {', '.join(TABLES)}"
            raise UsageError(f"there is no table {name!r}{hint}")
        return self.tables[name]

    def meaning(self, name: str) -> str:
        """Say in a line what a table holds."""
        return TABLES[name]

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page and return its path."""
        from traceweave.comparison.page import write_page

        write_page(Path(path), self.base, self.new, self.time, self.tables)
        return Path(path)
