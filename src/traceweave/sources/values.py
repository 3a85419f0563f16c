"""Values of files that anybody may have written: as what they should be, or None."""

from __future__ import annotations

import re
from typing import Any

MOST_RANK = 2**31 - 1
"""Ranks, sizes and devices beyond are damage."""

LATEST_NS = 4 * 10**18
"""The year 2096: times beyond are damage, and sums with them could overflow."""

_MOST = 2**63 - 1


def whole(value: object, most: int = _MOST, least: int = 0) -> int | None:
    """Return a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if least <= value <= most else None


def digits(value: object, most: int = _MOST, least: int = 0) -> int | None:
    """Return a whole number from `least` to `most`, also if it is written as text."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        value = int(value)
    return whole(value, most, least)


def wholes(values: object, most: int = MOST_RANK) -> list[int] | None:
    """Return a list of whole numbers; None if it is none, or one of them is not."""
    found = [whole(value, most) for value in values] if isinstance(values, list) else [None]
    known = [number for number in found if number is not None]
    return known if len(known) == len(found) else None


def text(value: object, longest: int = 1000) -> str | None:
    """Return a text that says something, cut to `longest` characters, which any database takes."""
    if not isinstance(value, str) or not value:
        return None
    return value[:longest].encode("utf-8", "replace").decode()


def mapping(value: object) -> dict[str, Any]:
    """Return a mapping, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: object) -> list[Any]:
    """Return a list, an empty one in place of anything else."""
    return value if isinstance(value, list) else []
