"""The same recording given twice as a baseline: it tells no noise between recordings."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

_IDENTITY = """
SELECT
    (SELECT list((rank, host, pid, first_local_ns, last_local_ns) ORDER BY rank) FROM ranks),
    (SELECT list((rank, step, start_ns, end_ns) ORDER BY rank, step) FROM steps)
"""
"""Two recordings of one job differ in their times, whatever their files are called."""


def without_repeats(
    baselines: Sequence[duckdb.DuckDBPyConnection],
) -> tuple[tuple[duckdb.DuckDBPyConnection, ...], tuple[str, ...]]:
    """Return the baselines without those that repeat an earlier one, and what to say of them."""
    if len(baselines) < 2:
        return tuple(baselines), ()
    first: dict[str, int] = {}
    kept, remarks = [], []
    for place, con in enumerate(baselines, start=1):
        same = first.setdefault(str(con.execute(_IDENTITY).fetchall()), place)
        if same == place:
            kept.append(con)
        else:
            remarks.append(
                f"baseline {place} is left out: it is the same recording as baseline {same}, and"
                " the same recording twice tells no noise"
            )
    return tuple(kept), tuple(remarks)
