"""What a stretch of time is made of."""

from __future__ import annotations

from typing import Any

from traceweave.explorer.asking import Asking
from traceweave.explorer.run import Explored
from traceweave.explorer.views import Stretch

Answer = dict[str, Any]

MOST_NAMES = 200
"""Of all names, those that take the most time are listed."""

_LEVELS = {9: "classes", 3: "lanes", 8: "names"}
"""What a row is of, by the columns that it is not of (bits for lane, category, class, name)."""


def totals(run: Explored, asking: Asking, stretch: Stretch, ranks: list[int], lane: int) -> Answer:
    """Return how long operations ran in a stretch, as far as they lie in it: by class, by lane and
    category, and by name, the longest first; `names_in_all` says how many names there are.

    A lane of -1 is all of those ranks'. Times of operations that overlap on a lane add up.
    """
    bounds = run.bounds(ranks, stretch.from_ns, stretch.until_ns)
    found: dict[str, list[Answer]] = {name: [] for name in _LEVELS.values()}
    for row in asking.rows("totals", **bounds, lane=lane):
        found[_LEVELS[row.pop("level")]].append(
            {key: value for key, value in row.items() if value is not None}
        )
    names = found["names"]
    return {**found, "names": names[:MOST_NAMES], "names_in_all": len(names)}
