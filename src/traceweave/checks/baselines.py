"""Several recordings of the same code: which of them count, and how far one more may be from them.

A number of k baselines with mean m and standard deviation s (k - 1 degrees of freedom) leaves the
next recording, if nothing but noise differs and noise is normal, with 95 % below the one-sided
prediction limit m + t(0.95; k - 1) * s * sqrt(1 + 1/k) (P. M. Berthouex, L. C. Brown: Statistics
for Environmental Engineers, 2nd ed., 2002, chapter 21). Two baselines hardly tell what noise there
is, and the limit says so: 7.73 s; three make it 3.37 s, five 2.34 s, ten 1.92 s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import duckdb

CONFIDENCE = 0.95
"""Of as many recordings in which nothing changed a number is within its noise."""

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


def noise_of(values: Sequence[float]) -> float | None:
    """Return how far from their mean one more value may be; None for fewer than two."""
    count = len(values)
    if count < 2:
        return None
    from scipy.special import stdtrit  # the inverse of Student's t distribution

    spread = statistics.stdev(values) * math.sqrt(1 + 1 / count)
    return float(stdtrit(count - 1, CONFIDENCE)) * spread
