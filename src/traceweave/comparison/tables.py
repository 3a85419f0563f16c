"""Which tables a comparison has."""

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


def meaning_of(name: str, unit: str) -> str:
    """Say in a line what a table holds of runs whose samples are each a `unit`."""
    return TABLES[name].replace("per step", f"per {unit}")
