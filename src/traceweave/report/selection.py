"""Which ranks stand for all of them where there are too many to show each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from traceweave.report.query import Row
from traceweave.words import plural

MANY_RANKS = 32
"""Charts and tables show every rank up to this many, and a selection of more."""

HIGHEST, MIDDLE, LOWEST = 12, 4, 4
"""Ranks of a selection: those with the highest values, around the median, with the lowest."""

FEWEST_USUAL, STANDS_OUT, OUTLYING, MOST_OUTLIERS = 4, 0.03, 4, 4
"""Ranks of which some can be usual; how far an outlier is from their median, as a share of it and
as a multiple of the median distance; how many are named."""

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

    def told(self, unit: str) -> str:
        """Say under a chart what it shows, in `unit`, and of how many ranks."""
        return (
            f"{unit}; {len(self.rows)} of {plural(self.ranks, 'rank')} shown"
            if self.partial
            else unit
        )

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


def outliers(rows: Sequence[Row], measure: Callable[[Row], float]) -> list[int]:
    """Return the ranks (rows: one per rank) that stand out by `measure`, the furthest first.

    They are STANDS_OUT away from the median and OUTLYING times as far as the median rank is. Of
    fewer than four ranks none is usual.
    """
    if len(rows) < FEWEST_USUAL:
        return []
    usual = median(measure(row) for row in rows)
    apart = {row["rank"]: abs(measure(row) - usual) for row in rows}
    least = max(STANDS_OUT * abs(usual), OUTLYING * median(apart.values()))
    far = [rank for rank in apart if apart[rank] > least]
    return sorted(far, key=lambda rank: (-apart[rank], rank))[:MOST_OUTLIERS]


def spread(values: Iterable[int | float | None]) -> list[int | float | None]:
    """Return the QUANTILES of the values that are known; nearest rank, as the analyses take it."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return [None] * len(QUANTILES)
    places = (0, *(-(-len(known) * percent // 100) - 1 for percent in (50, 95)), len(known) - 1)
    return [known[place] for place in places]
