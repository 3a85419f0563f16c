"""Two runs side by side: can they be compared, is the new one slower, where did the time go?

Per step and per rank, so that runs of different length and size compare. SQL of `queries/` reads
either database, statistics are scipy's.
"""

from __future__ import annotations

import duckdb

from traceweave.comparison.budget import budget_table, compare_step_time, step_table
from traceweave.comparison.comparability import Comparability, compare_facts, no_facts
from traceweave.comparison.facts import read_facts
from traceweave.comparison.items import compare_items
from traceweave.comparison.others import memory_table, overlap_table, straggler_table
from traceweave.comparison.result import Comparison
from traceweave.comparison.side import load_side, read_steps
from traceweave.comparison.tables import TABLES
from traceweave.errors import InputError, UsageError

__all__ = [
    "SMALLEST_CHANGE",
    "TABLES",
    "Comparability",
    "Comparison",
    "can_be_compared",
    "compare_runs",
]


SMALLEST_CHANGE = 0.01
"""Share of the step: a smaller change of the step time is none that counts, unless asked for.

One job recorded twice within five minutes computed 1.3% less the second time (torchrec, in the
corpus of the tests), so less than a percent is nothing to act upon.
"""


def can_be_compared(
    base: duckdb.DuckDBPyConnection, new: duckdb.DuckDBPyConnection
) -> Comparability:
    """Tell whether two runs can be compared, without comparing them; so too if one did no work."""
    try:
        steps = read_steps(base, "the baseline", warmup=1), read_steps(new, "the run", warmup=1)
        return compare_facts(read_facts(base, steps[0]), read_facts(new, steps[1]))
    except InputError as error:
        return no_facts(str(error))


def compare_runs(
    base: duckdb.DuckDBPyConnection,
    new: duckdb.DuckDBPyConnection,
    *,
    names: tuple[str, str] = ("base", "new"),
    warmup: int = 1,
    alpha: float = 0.05,
    smallest_change: float = SMALLEST_CHANGE,
) -> Comparison:
    """Compare the run in `new` with the one in `base`.

    `warmup` first steps of either run do not count, `alpha` is the level of significance, and a
    change of the step time below `smallest_change` (share of the step) does not count, nor one of
    an item below a tenth of it. Raises UsageError for values that make no sense, InputError for a
    run without any work.
    """
    if warmup < 0:
        raise UsageError(f"warmup is a number of steps; it cannot be {warmup}")
    if not 0 < alpha < 1:
        raise UsageError(f"alpha is a probability between 0 and 1; it cannot be {alpha}")
    if not 0 <= smallest_change < 1:
        raise UsageError(
            f"smallest_change is a share of the step, 0.01 for 1%; it cannot be {smallest_change}"
        )
    steps = read_steps(base, names[0], warmup), read_steps(new, names[1], warmup)
    comparability = compare_facts(read_facts(base, steps[0]), read_facts(new, steps[1]))
    sides = load_side(base, names[0], steps[0]), load_side(new, names[1], steps[1])
    time = compare_step_time(*sides, alpha, smallest_change)
    tables = {
        "comparability": comparability.table(),
        "step": step_table(time, *sides),
        "budget": budget_table(time, *sides),
        "overlap": overlap_table(*sides, alpha, smallest_change, testable=time.testable),
        **compare_items(*sides, alpha, time.smallest_item_ns),
        "stragglers": straggler_table(*sides),
        "memory": memory_table(*sides),
    }
    return Comparison(comparability, *sides, time, {name: tables[name] for name in TABLES})
