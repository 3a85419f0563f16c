"""Which tables a comparison has, and which columns and rows of them are shown first."""

from __future__ import annotations

TABLES = {
    "comparability": "whether the two runs can be compared",
    "step": "step time and its tests",
    "budget": "where the difference went: parts that add up to the whole",
    "overlap": "how much of the communication compute hides",
    "classes": "GPU kernels by class, per step and rank",
    "kernels": "GPU kernels by name and launch grid, per step and rank",
    "ops": "operators and ranges of the host by name and input shapes: their own time per step",
    "collectives": "collectives by operation and size, per step and rank, and the waiting in it",
    "stragglers": "how long ranks waited because of each, per step, summed over the waiting ranks",
    "memory": "memory at the peak",
}
"""Tables of a comparison, with what they hold."""

SHORT = 10
"""Rows of each table when all of them are shown; of `comparability` all are."""

_ITEMS = ("item", "class", "shape", "change", "base_ns", "new_ns", "difference_ns", "relative")
BRIEF = {
    "comparability": ("fact", "verdict", "base", "new"),
    "step": (
        "sample", "verdict", "base_ns", "new_ns", "difference_ns", "relative", "low_ns", "high_ns",
    ),
    "classes": _ITEMS,
    "kernels": _ITEMS,
    "ops": _ITEMS,
    "collectives": _ITEMS,
}  # fmt: skip
"""Columns of tables that are too wide, when all tables are shown."""


def meaning_of(name: str, unit: str) -> str:
    """Say in a line what a table holds of runs whose samples are each a `unit`."""
    return TABLES[name].replace("per step", f"per {unit}")
