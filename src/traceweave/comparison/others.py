"""What else differs between two runs: overlap, stragglers, memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from traceweave.analyses import shared_rows
from traceweave.comparison.side import Side, ask
from traceweave.comparison.statistics import Values, changes, compare_samples


def overlap_table(
    base: Side, new: Side, alpha: float, smallest_change: float, *, testable: bool
) -> pa.Table:
    """Return how much of the communication compute hides, and how well the two overlap, 0 to 1.

    What changed by less than `smallest_change` of the whole is the same.
    """
    rows = []
    for name, over in (("communication hidden", "comm_ns"), ("overlap efficiency", "least")):
        samples = [_fraction(side, over) for side in (base, new)]
        p = None
        if testable and not any(np.isnan(sample).any() for sample in samples):
            found = compare_samples([sample[np.newaxis, :] for sample in samples]).welch_p[0]
            p = None if np.isnan(found) else float(found)
        was, now = (_whole_fraction(side, over) for side in (base, new))
        change = None if was is None or now is None else now - was
        tested = np.array([np.nan if x is None else x for x in (change, p)])
        [word] = changes(tested[:1], tested[1:], alpha, smallest_change, ("higher", "lower"))
        rows.append(
            {
                "measure": name,
                "change": word,
                "base_share": was,
                "new_share": now,
                "difference_share": change,
                "p": p,
            }
        )
    return pa.Table.from_pylist(rows, schema=_OVERLAP)


_OVERLAP = pa.schema(
    [
        ("measure", pa.string()),
        ("change", pa.string()),
        ("base_share", pa.float64()),
        ("new_share", pa.float64()),
        ("difference_share", pa.float64()),
        ("p", pa.float64()),
    ]
)


def straggler_table(base: Side, new: Side) -> pa.Table:
    """Return how long ranks waited because of each, ns per step that counts, and why."""
    sides = [_stragglers(side) for side in (base, new)]
    rows: list[dict[str, Any]] = []
    for rank in sorted({*sides[0], *sides[1]}):
        row: dict[str, Any] = {"rank": rank}
        for name, side in zip(("base", "new"), sides, strict=True):
            found = side.get(rank, {})
            row |= {f"{name}_{key}": value for key, value in found.items()}
        if rank in sides[0] and rank in sides[1]:
            row["difference_ns"] = row["new_origin_wait_ns"] - row["base_origin_wait_ns"]
        rows.append(row)
    rows.sort(key=lambda row: -max(row.get(f"{s}_origin_wait_ns", 0) for s in ("base", "new")))
    return pa.Table.from_pylist(rows, schema=_STRAGGLERS)


_STRAGGLERS = pa.schema(
    [
        ("rank", pa.int32()),
        ("base_origin_wait_ns", pa.int64()),
        ("new_origin_wait_ns", pa.int64()),
        ("difference_ns", pa.int64()),
        ("base_cause", pa.string()),
        ("new_cause", pa.string()),
    ]
)


def memory_table(base: Side, new: Side) -> pa.Table:
    """Return the memory at the peak; no rows where neither trace has memory events."""
    names = ("largest_allocated", "mean_allocated", "largest_reserved", "mean_reserved")
    sides = []
    for side in (base, new):
        [row] = ask(side.con, "memory", "memory").to_pylist()
        sides.append(row)
    rows = [
        {
            "measure": f"{name.replace('_', ' ')} at the peak",
            "base_bytes": old,
            "new_bytes": now,
            "difference_bytes": None if old is None or now is None else now - old,
        }
        for name in names
        for old, now in [[side[f"{name}_bytes"] for side in sides]]
        if old is not None or now is not None
    ]
    return pa.Table.from_pylist(rows, schema=_MEMORY)


_MEMORY = pa.schema(
    [
        ("measure", pa.string()),
        ("base_bytes", pa.int64()),
        ("new_bytes", pa.int64()),
        ("difference_bytes", pa.int64()),
    ]
)


def _stragglers(side: Side) -> dict[int, dict[str, Any]]:
    """Return by rank how long ranks waited because of it in the mean step that counts, and why."""
    rows = ask(side.con, "stragglers", "stragglers").to_pylist()
    waits = {row["rank"]: row["origin_wait_ns"] for row in rows}
    if side.steps is not None:
        followed = shared_rows(side.con, "followed_waits").filter(f"step IN {[*side.steps]}")
        waits = dict(followed.aggregate("origin, fsum(wait_ns)").fetchall())
    return {
        row["rank"]: {
            "origin_wait_ns": round(waits.get(row["rank"], 0) / side.count),
            "cause": row["cause"],
        }
        for row in rows
    }


def _over(side: Side, over: str) -> Values:
    if over == "least":
        return np.minimum(side.totals["compute_ns"], side.totals["comm_ns"])
    return side.totals[over]


def _fraction(side: Side, over: str) -> Values:
    below = _over(side, over)
    result = np.full(len(below), np.nan)
    np.divide(side.totals["overlap_ns"], below, out=result, where=below > 0)
    return result


def _whole_fraction(side: Side, over: str) -> float | None:
    below = float(_over(side, over).sum())
    return float(side.totals["overlap_ns"].sum()) / below if below else None
