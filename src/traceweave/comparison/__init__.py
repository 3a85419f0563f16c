"""Two runs side by side: is the new one slower, where did the time go, and is it more than chance?

Per step and per rank, so that runs of different length and size compare. SQL of `queries/` reads
either database, statistics are scipy's.
"""

from __future__ import annotations

import duckdb

from traceweave.comparison.budget import budget_table, compare_step_time, step_table
from traceweave.comparison.items import KINDS, compare_items
from traceweave.comparison.others import memory_table, overlap_table, straggler_table
from traceweave.comparison.result import Comparison
from traceweave.comparison.side import load_side
from traceweave.comparison.tables import TABLES
from traceweave.errors import UsageError

__all__ = ["TABLES", "Comparison", "compare_runs"]


def compare_runs(
    base: duckdb.DuckDBPyConnection,
    new: duckdb.DuckDBPyConnection,
    *,
    names: tuple[str, str] = ("base", "new"),
    warmup: int = 1,
    alpha: float = 0.05,
) -> Comparison:
    """Compare the run in `new` with the one in `base`.

    `warmup` first steps of either run do not count, `alpha` is the level of significance. Raises
    UsageError for values that make no sense, InputError for a run without any work.
    """
    if warmup < 0:
        raise UsageError(f"warmup is a number of steps; it cannot be {warmup}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is a probability between 0 and 1; it cannot be {alpha}")
    sides = load_side(base, names[0], warmup), load_side(new, names[1], warmup)
    time = compare_step_time(*sides, alpha)
    tables = {
        "step": step_table(time, *sides),
        "budget": budget_table(time, *sides),
        "overlap": overlap_table(*sides, alpha, testable=time.testable),
        **{kind: compare_items(*sides, kind, alpha) for kind in KINDS},
        "stragglers": straggler_table(*sides),
        "memory": memory_table(*sides),
    }
    return Comparison(*sides, time, {name: tables[name] for name in TABLES})
