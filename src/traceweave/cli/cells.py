"""What a table on the terminal shows of a value, and above it."""

from __future__ import annotations

from collections.abc import Sequence

from traceweave import words


def cell(name: str, value: object) -> str:
    """Return one value of the column `name` as text that a terminal shows as it is."""
    return printable(words.cell(name, value))


def headings(names: Sequence[str]) -> list[str]:
    """Return the heading of every column, whose values carry their unit: no two alike.

    host_op_ns is host_op, but host_op_time beside a column of that name.
    """
    short = [words.bare(name) if name != "bytes" else "size" for name in names]
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
