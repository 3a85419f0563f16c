"""Numbers as people read them: the only place where nanoseconds become milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

EPOCH_FROM_NS = 10**17
"""A time in ns beyond this (1973) is a moment, anything shorter a duration."""

LAST_NS = 2**63
"""A time in ns beyond this (2262) is no moment that the tables can hold."""

FRACTIONS = ("share", "_fraction", "_efficiency", "relative", "_balance", "mfu", "hfu")
"""Columns whose names end like this hold shares of a whole, written in percent."""

_DURATIONS = ((10**9, "s"), (10**6, "ms"), (10**3, "us"))
_FLOPS = ((10**15, "PFLOP"), (10**12, "TFLOP"), (10**9, "GFLOP"), (10**6, "MFLOP"))
_SIZES = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def human(name: str, value: object) -> str:
    """Return one value of the column `name` as text; its unit is what the name ends with."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, int | float) and name.endswith("_ns"):
        is_moment = EPOCH_FROM_NS < value < LAST_NS
        return moment(int(value)) if is_moment else duration(value)
    if isinstance(value, int | float) and (name.startswith("bytes") or name.endswith("_bytes")):
        return size(value)
    if isinstance(value, int | float) and (name == "flops" or name.endswith("_flops")):
        return work(value)
    if isinstance(value, float) and name.endswith(FRACTIONS):
        return percent(value)
    if isinstance(value, float):
        digits = 4 if abs(value) >= 0.001 else 2
        return f"{value:.{digits}g}" if abs(value) < 1000 else f"{value:.1f}"
    return printable(str(value))


def percent(fraction: float) -> str:
    """Return a fraction as '12.3%'; it rounds to nothing or to all only if it is that."""
    if 0 < fraction < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= fraction < 1 else f"{fraction:.1%}"


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


def duration(ns: float) -> str:
    """Return nanoseconds with four digits, as '1.234 ms'."""
    for unit_ns, unit in _DURATIONS:
        if abs(ns) >= unit_ns:
            value = ns / unit_ns
            decimals = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
            return f"{value:.{decimals}f} {unit}"
    return f"{ns:g} ns"


def moment(ns: int) -> str:
    """Return epoch nanoseconds as the UTC time of day, to the microsecond."""
    seconds, rest = divmod(ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{rest // 1000:06d}"


def date_and_time(ns: int) -> str:
    """Return epoch nanoseconds as UTC date and time, to the second."""
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def size(count: float) -> str:
    """Return bytes in decimal units, '1.5 MB'."""
    for unit_bytes, unit in _SIZES:
        if abs(count) >= unit_bytes:
            return f"{count / unit_bytes:.3g} {unit}"
    return f"{count:g} B"


def work(flops: float) -> str:
    """Return a number of floating point operations, '146.4 TFLOP'."""
    for unit_flops, unit in _FLOPS:
        if abs(flops) >= unit_flops:
            return f"{flops / unit_flops:.4g} {unit}"
    return f"{flops:g} FLOP"


def printable(text: str) -> str:
    """Return text that a terminal shows as it is: control characters of a hostile name escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
