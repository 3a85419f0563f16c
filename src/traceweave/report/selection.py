"""Which ranks stand for all of them where there are too many to show each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from traceweave.report.query import Row
from traceweave.words import plural

MANY_RANKS = 32
"""Charts and tables show every rank up to this many, and a selection of more."""

HIGHEST, MIDDLE, LOWEST = 12, 4, 4
"""Ranks of a selection: those with the highest values, around the median, with the lowest."""

QUANTILES = (("Lowest", "min"), ("Median", "p50"), ("95% of ranks", "p95"), ("Highest", "max"))
"""What a chart over many ranks shows of their values: its name and the role of its mark."""


@dataclass(frozen=True)
class Selection:
    """Rows of the ranks shown, ascending, and how many ranks there are."""

    rows: list[Row]
    ranks: int

    @property
    def partial(self) -> bool:
        """Whether ranks are left out."""
        return len(self.rows) < self.ranks

    def note(self, measure: str, command: str) -> str:
        """Say which ranks are shown, or nothing if all are; `command` gives every one."""
        if not self.partial:
            return ""
        return (
            f"Of {plural(self.ranks, 'rank')}, {len(self.rows)} are shown: the {HIGHEST} with the"
            f" most {measure}, the {LOWEST} with the least, and {MIDDLE} around the median. All of"
            f" them: {command}"
        )


def first_rows(shown: int, of: int, command: str, order: str = "") -> str:
    """Say that a table has only its first rows, or nothing if it has all of them.

    `order`: what comes first, if that needs saying; `command` gives every row.
    """
    if of <= shown:
        return ""
    first = f", {order} first" if order else ""
    return f"The first {shown} of {plural(of, 'row')}{first}. All of them: {command}"


def select_ranks(rows: Sequence[Row], measure: Callable[[Row], float | None]) -> Selection:
    """Choose rows (one per rank) by `measure`: all if they are few, else ends and middle.

    A rank whose measure is NULL counts as the highest: what is not known needs a look.
    """
    if len(rows) <= MANY_RANKS:
        return Selection(list(rows), len(rows))

    def key(row: Row) -> tuple[bool, float, int]:
        value = measure(row)
        return (value is not None, -(value or 0), row["rank"])

    ordered = sorted(rows, key=key)
    middle = (len(ordered) - MIDDLE) // 2
    chosen = ordered[:HIGHEST] + ordered[middle : middle + MIDDLE] + ordered[-LOWEST:]
    return Selection(sorted(chosen, key=lambda row: row["rank"]), len(rows))


def spread(values: Iterable[int | float | None]) -> list[int | float | None]:
    """Return the QUANTILES of the values that are known; nearest rank, as the analyses take it."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return [None] * len(QUANTILES)
    places = (0, *(-(-len(known) * percent // 100) - 1 for percent in (50, 95)), len(known) - 1)
    return [known[place] for place in places]
