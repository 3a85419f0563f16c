"""Numbers as people read them: durations, shares, sizes and counts as text with their unit."""

from __future__ import annotations

import re
from typing import NamedTuple

MISSING = "–"
"""Stands for NULL: the inputs do not support the number."""

_TIME_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))
_SIZE_UNITS = (
    (1_000_000_000_000, "TB"),
    (1_000_000_000, "GB"),
    (1_000_000, "MB"),
    (1_000, "kB"),
    (1, "B"),
)


class Scale(NamedTuple):
    """A unit for many numbers: value / divisor, written with `decimals`, reads in `unit`."""

    divisor: int
    unit: str
    decimals: int

    def text(self, value: int | float | None) -> str:
        """Write `value` in this unit, without naming it."""
        return MISSING if value is None else f"{value / self.divisor:z,.{self.decimals}f}"


def duration_scale(largest_ns: int | float) -> Scale:
    """Return the unit in which `largest_ns` has one to four digits before the point."""
    for divisor, unit in _TIME_UNITS:
        if abs(largest_ns) >= divisor:
            return Scale(divisor, unit, 0 if divisor == 1 else _decimals(largest_ns / divisor))
    return Scale(1, "ns", 0)


def duration(ns: int | float | None) -> str:
    """Write nanoseconds with three significant digits and their unit."""
    if ns is None:
        return MISSING
    scale = duration_scale(ns)
    return f"{scale.text(ns)} {scale.unit}"


def size(value: int | None) -> str:
    """Write bytes with three significant digits, decimal units."""
    if value is None:
        return MISSING
    for divisor, unit in _SIZE_UNITS:
        if abs(value) >= divisor:
            decimals = 0 if divisor == 1 else _decimals(value / divisor)
            return f"{value / divisor:,.{decimals}f} {unit}"
    return "0 B"


def gbps(value: float | None) -> str:
    """Write a bandwidth, given in decimal GB/s, with three digits and its unit."""
    return MISSING if value is None else f"{size(round(value * 1e9))}/s"


def percent(fraction: float | None) -> str:
    """Write a fraction (0 to 1) as a percentage that rounds to 0 or 100 only if it is that."""
    if fraction is None:
        return MISSING
    if 0 < fraction < 0.0005:
        return "<0.1%"
    if 0.9995 <= fraction < 1:
        return ">99.9%"
    return f"{fraction * 100:z,.1f}%"


def told(text: str) -> str:
    """Write a sentence of an analysis, whose microseconds are 'us', as the page writes them."""
    return re.sub(r"(?<=\d) us\b", " µs", text)


def count(value: int | None) -> str:
    """Write a whole number with separated thousands."""
    return MISSING if value is None else f"{value:,}"


def plural(value: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun: '1 rank', '8 ranks'."""
    return f"{count(value)} {one if value == 1 else many or one + 's'}"


def rank_list(ranks: list[int]) -> str:
    """Write ascending rank numbers with runs folded: [0, 1, 2, 5] as '0–2, 5'."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(_run(first, last) for first, last in runs)


def name_ranks(ranks: list[int]) -> str:
    """Write 'rank 3' or 'ranks 0–2, 5'."""
    return f"rank{'s' if len(ranks) > 1 else ''} {rank_list(ranks)}"


def _run(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}, {last}" if last == first + 1 else f"{first}–{last}"


def _decimals(value: float) -> int:
    return 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
