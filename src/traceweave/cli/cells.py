"""What a table on the terminal shows of a value, and above it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from traceweave import words

EPOCH_FROM_NS = 10**17
"""A time in ns beyond this (1973) is a moment, anything shorter a duration."""

LAST_NS = 2**63
"""A time in ns beyond this (2262) is no moment that the tables can hold."""

FRACTIONS = ("share", "_fraction", "_efficiency", "relative", "_balance", "mfu", "hfu")
"""Columns whose names end like this hold shares of a whole, written in percent."""


def cell(name: str, value: object) -> str:
    """Return one value of the column `name` as text; its unit is what the name ends with.

    Whole numbers without a unit are written as they are stored: they may be ids, for a next query.
    """
    if value is None:
        return words.MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("ranks") and isinstance(value, list) and set(map(type, value)) == {int}:
        return words.folded(value)
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, int | float):
        return _number(name, value)
    return printable(str(value))


def _number(name: str, value: int | float) -> str:
    if name.endswith("_ns"):
        is_moment = EPOCH_FROM_NS < value < LAST_NS
        return words.time_of_day(int(value)) if is_moment else words.duration(value, words.TABLE)
    if name.startswith("bytes") or name.endswith("_bytes"):
        return words.size(value, words.TABLE)
    if name == "flops" or name.endswith("_flops"):
        return words.work(value, words.TABLE)
    if isinstance(value, int):
        return str(value)
    return words.percent(value) if name.endswith(FRACTIONS) else words.number(value, words.TABLE)


def headings(names: Sequence[str]) -> list[str]:
    """Return the heading of every column, whose values carry their unit: no two alike.

    host_op_ns is host_op, but host_op_time beside a column of that name.
    """
    short = [
        name.removesuffix("_ns").removesuffix("_bytes") if name != "bytes" else "size"
        for name in names
    ]
    return [
        text if short.count(text) == 1 else _with_kind(name)
        for name, text in zip(names, short, strict=True)
    ]


def _with_kind(name: str) -> str:
    for ending, kind in (("_ns", "_time"), ("_bytes", "_size")):
        if name.endswith(ending):
            return name.removesuffix(ending) + kind
    return name


def printable(text: str) -> str:
    """Return text that a terminal shows as it is: control characters of a hostile name escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
