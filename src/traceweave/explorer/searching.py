"""Where names are that hold a text."""

from __future__ import annotations

from typing import Any

from traceweave.explorer.asking import Asking
from traceweave.explorer.run import Explored

Answer = dict[str, Any]

MOST_NAMES = 500
"""Of those found, the most frequent are listed."""

_FIRST_PART = 256
_MORE = 8
"""A hit is looked for in a part of the run first, then in one so many times as long."""


def found_names(asking: Asking, text: str) -> Answer:
    """Return the names that hold a text, and how many operations have one of them."""
    rows = asking.rows("found_names", text=text)
    return {"ops": sum(row["ops"] for row in rows), "names": rows[:MOST_NAMES], "of": len(rows)}


def next_hit(
    run: Explored, asking: Asking, text: str, at_ns: int, op_id: int, *, back: bool
) -> Answer | None:
    """Return the nearest operation after (or before) another, whose name holds a text."""
    part = max(run.span_ns // _FIRST_PART, 1)
    query = "previous_hit" if back else "next_hit"
    while True:
        first = max(at_ns - part, 0) if back else at_ns
        last = at_ns + 1 if back else min(at_ns + part, run.span_ns + 1)
        bounds = run.bounds(run.ranks, first, max(last, first + 1))
        if rows := asking.rows(query, **bounds, text=text, at_ns=at_ns, id=op_id):
            # what is longer than the part may have begun before it: that is a hit all the same
            return rows[0]
        if first <= 0 if back else last > run.span_ns:
            return None
        part *= _MORE
