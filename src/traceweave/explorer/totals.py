"""What a stretch of time is made of."""

from __future__ import annotations

from typing import Any

from traceweave.explorer.asking import Asking
from traceweave.explorer.run import Explored
from traceweave.explorer.views import Stretch

Answer = dict[str, Any]

MOST_NAMES = 200
"""Of all names, those that take the most time are listed."""

FEW_RANKS = 8
"""So many ranks are listed side by side."""

_LEVELS = {25: "classes", 11: "lanes", 24: "names", 16: "names_of_ranks"}
"""What a row is of, by the columns that it is not of (bits for lane, rank, category, class, name).
"""


def totals(run: Explored, asking: Asking, stretch: Stretch, ranks: list[int], lane: int) -> Answer:
    """Return how long operations ran in a stretch, as far as they lie in it: by class, by lane and
    category, and by name, the longest first; `names_in_all` says how many names there are. Names
    have `of_ranks`, the time in each of the ranks, where these are few.

    A lane of -1 is all of those ranks'. Times of operations that overlap on a lane add up.
    """
    bounds = run.bounds(ranks, stretch.from_ns, stretch.until_ns)
    found: dict[str, list[Answer]] = {name: [] for name in _LEVELS.values()}
    beside = 1 < len(ranks) <= FEW_RANKS
    for row in asking.rows("totals", **bounds, lane=lane, beside=beside):
        found[_LEVELS[row.pop("level")]].append(
            {key: value for key, value in row.items() if value is not None}
        )
    names, own = found["names"], found.pop("names_of_ranks")
    if beside:
        of_ranks: dict[tuple[str, ...], dict[int, int]] = {}
        for row in own:
            of_ranks.setdefault(_name(row), {})[row["rank"]] = row["busy_ns"]
        for row in names:
            row["of_ranks"] = [of_ranks[_name(row)].get(rank, 0) for rank in ranks]
    return {**found, "names": names[:MOST_NAMES], "names_in_all": len(names)}


def _name(row: Answer) -> tuple[str, ...]:
    return tuple(str(row.get(key)) for key in ("category", "class", "name"))
