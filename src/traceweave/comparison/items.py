"""Kernels, operators and collectives of two runs, item by item."""

from __future__ import annotations

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceweave.analyses import provide
from traceweave.comparison.comparability import ALIKE_MATCHED
from traceweave.comparison.side import Side, query
from traceweave.comparison.statistics import Values, adjust, changes, compare_samples

Numbers = npt.NDArray[np.int64]

KINDS = ("classes", "kernels", "ops", "collectives")
"""Queries of items."""


def compare_items(base: Side, new: Side, alpha: float, least_ns: float) -> dict[str, pa.Table]:
    """Return by kind one row per item, the largest change of time per step and rank first.

    One that changed by less than `least_ns` is the same. Times are ns per step and rank (per
    recording and rank without steps). `from_calls_ns` is what
    the other number of calls costs at the old duration, `from_duration_ns` what the other duration
    costs at the new number of calls; together they are `difference_ns`.
    """
    with duckdb.connect() as con:
        return {kind: _compared(con, base, new, kind, alpha, least_ns) for kind in KINDS}


def _compared(
    con: duckdb.DuckDBPyConnection, base: Side, new: Side, kind: str, alpha: float, least_ns: float
) -> pa.Table:
    rows = _matched(con, base, new, kind)
    items, first = np.unique(rows["number"].to_numpy(), return_index=True)
    calls, times = (
        [_grid(rows, side, place, column, len(items)) for place, side in enumerate((base, new))]
        for column in ("calls", "total_ns")
    )
    tests = compare_samples(times)
    p = adjust(tests.welch_p)
    calls_mean, times_mean = ([grid.mean(axis=1) for grid in pair] for pair in (calls, times))
    each = [_ratio(t, c) for t, c in zip(times_mean, calls_mean, strict=True)]
    whole = np.rint(tests.difference)
    from_calls = np.rint((calls_mean[1] - calls_mean[0]) * each[0])
    from_calls = np.where(np.isnan(each[0]) | np.isnan(each[1]), whole, from_calls)
    table = {
        "item": rows["item"].take(pa.array(first)),
        "shape": rows["shape"].take(pa.array(first)),
        "class": rows["class"].take(pa.array(first)),
        "change": _came_and_went(
            calls_mean, changes(tests.difference, p, alpha, least_ns, ("slower", "faster"))
        ),
        "base_ns": _whole(times_mean[0]),
        "new_ns": _whole(times_mean[0]).to_numpy() + whole.astype(np.int64),
        "difference_ns": _whole(whole),
        "relative": _nulls(_ratio(tests.difference, times_mean[0])),
        "p_adjusted": _nulls(p),
        "base_calls": calls_mean[0],
        "new_calls": calls_mean[1],
        "base_each_ns": _nulls(each[0]),
        "new_each_ns": _nulls(each[1]),
        "from_calls_ns": _whole(from_calls),
        "from_duration_ns": _whole(whole - from_calls),
    }
    order = np.lexsort((items, -np.abs(tests.difference)))
    return pa.table(table).take(pa.array(order))


def _matched(con: duckdb.DuckDBPyConnection, base: Side, new: Side, kind: str) -> pa.Table:
    """Return the rows of match.sql over both runs; of collectives those of known_waits.sql."""
    for name, side in (("base_items", base), ("new_items", new)):
        steps = None if side.steps is None else list(side.steps)
        sql = query(kind)
        provide(side.con, sql)
        rows = side.con.sql(sql, params={"steps": steps}).to_arrow_table()
        con.register(name, rows)
    rows = con.sql(query("match")).to_arrow_table()
    if kind == "collectives":
        con.register("matched", rows)
        rows = con.sql(query("known_waits"), params={"most": ALIKE_MATCHED}).to_arrow_table()
    return rows


def _grid(rows: pa.Table, side: Side, place: int, column: str, items: int) -> Values:
    """Return a column as items x steps of one run, the mean over its ranks."""
    mine = rows.filter(pc.equal(rows["side"], place))
    grid = np.zeros((items, side.count))
    step = np.zeros(len(mine), dtype=np.int64)
    if side.steps is not None:
        step = np.searchsorted(np.array(side.steps), mine["step"].to_numpy())
    grid[mine["number"].to_numpy(), step] = mine[column].to_numpy()
    return grid / side.ranks


def _came_and_went(calls: list[Values], words: list[str]) -> pa.Array:
    """Say of items that only one run has that they are 'added' or 'removed'."""
    found = np.where(calls[0] == 0, "added", np.where(calls[1] == 0, "removed", words))
    return pa.array(found.astype(str))


def _ratio(values: Values, over: Values) -> Values:
    """Return values / over; NaN where there is nothing to divide by."""
    result = np.full(len(values), np.nan)
    np.divide(values, over, out=result, where=over > 0)
    return result


def _whole(values: Values) -> pa.Array:
    return pa.array(np.rint(values).astype(np.int64))


def _nulls(values: Values) -> pa.Array:
    """Return values with NULL in place of NaN."""
    return pa.array(values, from_pandas=True)
