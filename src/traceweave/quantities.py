"""Numbers with units, as users write them: 100us, 25MB, 5%."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

UNITS: Mapping[str, tuple[str, Decimal]] = {
    name: (base, Decimal(many))
    for name, base, many in (
        ("ns", "ns", "1"), ("us", "ns", "1e3"), ("ms", "ns", "1e6"), ("s", "ns", "1e9"),
        ("min", "ns", "6e10"),
        ("B", "bytes", "1"), ("kB", "bytes", "1e3"), ("MB", "bytes", "1e6"), ("GB", "bytes", "1e9"),
        ("%", "fraction", "0.01"),
    )
}  # fmt: skip
"""Unit -> unit of the number, and how many of these it is."""

_QUANTITY = re.compile(r"\s*([-+]?\d+(?:\.\d+)?)\s*([A-Za-z%]+)\s*")


def read_quantity(text: str) -> tuple[Decimal, str]:
    """Return a number in base units, exact, and what these are: ns, bytes or fraction.

    Raises ValueError for a text that is no number with a known unit.
    """
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2] not in UNITS:
        raise ValueError(f"{text!r} is no number with a unit")
    unit, factor = UNITS[found[2]]
    return Decimal(found[1]) * factor, unit


def unit_of(name: str) -> str:
    """Return the unit that a column or parameter of this name is in; '' if its name tells none."""
    endings = (("_ns", "ns"), ("bytes", "bytes"))
    return next((unit for ending, unit in endings if name.endswith(ending)), "")
