"""How much longer kernels take beside communication or copies than alone, on the same rank.

What ran beside each kernel is measured here; which of them do the same work, so that they can be
compared, and what is lost is in contention.sql.
"""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.interrupts import go_on
from traceweave.replay.lookups import Union
from traceweave.replay.rows import together, where
from traceweave.store.rows import Columns, registered
from traceweave.vocabulary import script

KERNEL, COMMUNICATION, COPY, OTHER = range(4)
"""What an op is here; OTHER is compute too, but no kernel."""

# an operation in two halves lasts from the start of one to the end of the other
_OPS = f"""
SELECT
    g.rank, g.op_id, coalesce(g.device, -1) AS device, g.start_local_ns AS start_ns,
    greatest(g.start_local_ns + g.duration_ns, r.start_local_ns + r.duration_ns) AS end_ns,
    CASE
        WHEN g.category = 'communication' THEN {COMMUNICATION}
        WHEN g.category = 'memory' THEN {COPY}
        WHEN g.kind = 'kernel' THEN {KERNEL} ELSE {OTHER}
    END AS sort,
    (hash(g.name) >> 1)::BIGINT AS kernel
FROM gpu_ops AS g
LEFT JOIN collectives AS r ON r.gpu_op_id = g.op_id AND r.receive_op_id IS NOT NULL
WHERE g.rank BETWEEN $first AND $last
"""

_COLUMNS = (
    "rank INTEGER, op_id BIGINT, kernel BIGINT, op_ns BIGINT, communication_ns BIGINT,"
    " copy_ns BIGINT, compute_ns BIGINT, beside_op_id BIGINT"
)


def create_contention_table(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_contention: one row per kernel and what ran beside it, as contention.sql says."""
    con.execute(f"CREATE OR REPLACE TEMP TABLE tw_beside ({_COLUMNS})")
    for first, last in _parts(con):
        go_on()
        read = con.execute(_OPS, {"first": first, "last": last}).fetchnumpy()
        ops = {name: np.ma.getdata(values) for name, values in read.items()}
        # one number per rank and device: numpy sorts pairs ten times as slowly
        of_device = ops["rank"] * (ops["device"].max(initial=0) + 2) + ops["device"]
        for one in np.unique(of_device).tolist():
            with registered(con, beside(where(ops, of_device == one))) as rows:
                con.execute(f"INSERT INTO tw_beside BY NAME FROM {rows}")
    con.execute(script(__package__, "contention.sql"))


def _parts(con: duckdb.DuckDBPyConnection) -> list[tuple[int, int]]:
    """Return the first and last of the ranks whose ops are read at once."""
    ranks = [rank for (rank,) in con.execute("SELECT rank FROM ranks ORDER BY rank").fetchall()]
    ((ops,),) = con.execute("SELECT count(*) FROM gpu_ops").fetchall()
    return [(part[0], part[-1]) for part in together(ranks, ops) if part]


def beside(ops: Columns) -> Columns:
    """Return what ran beside each kernel of a device, for how long of its `op_ns`: communication,
    copies, other compute; and the communication (else the copy) that began last before its end.

    `ops` are rank, op_id, kernel (its name), start_ns, end_ns, sort.
    """
    start, end, sort = ops["start_ns"], ops["end_ns"], ops["sort"]
    computes = np.flatnonzero((sort == KERNEL) | (sort == OTHER))
    computes = computes[np.argsort(start[computes], kind="stable")]
    begin, until = start[computes], end[computes]
    # how far earlier ones reach into each, and by how much later ones begin before its end
    reached = np.append(begin[:1], np.maximum.accumulate(until)[:-1])
    following = np.append(begin[1:], until[-1:])
    crowded = np.maximum(reached - begin, 0) + np.maximum(until - following, 0)
    kernel = sort[computes] == KERNEL
    begin, until, crowded = begin[kernel], until[kernel], crowded[kernel]
    communication = np.flatnonzero(sort == COMMUNICATION)
    copies = np.flatnonzero(sort == COPY)
    communicated = Union(start[communication], end[communication]).covered(begin, until)
    copied = Union(start[copies], end[copies]).covered(begin, until)
    last = np.where(communicated > 0, _last(ops, communication, until), _last(ops, copies, until))
    return {
        **{name: ops[name][computes[kernel]] for name in ("rank", "op_id", "kernel")},
        "op_ns": until - begin,
        "communication_ns": communicated,
        "copy_ns": copied,
        "compute_ns": np.minimum(crowded, until - begin),
        "beside_op_id": np.ma.masked_array(last, (last < 0) | (communicated + copied == 0)),
    }


def _last(ops: Columns, chosen: Ints, until: Ints) -> Ints:
    """Return which of the chosen ops began last before each moment; -1: none."""
    chosen = chosen[np.argsort(ops["start_ns"][chosen], kind="stable")]
    place = np.searchsorted(ops["start_ns"][chosen], until, side="left") - 1
    found: Ints = np.append(ops["op_id"][chosen], -1)[place]
    return found


def lost_shares(con: duckdb.DuckDBPyConnection) -> tuple[Ints, Floats]:
    """Return the kernels that could be compared, ascending, and what share of each was lost."""
    create_contention_table(con)
    found = con.execute(
        "SELECT op_id, lost_ns / op_ns AS share FROM tw_contention"
        " WHERE lost_ns IS NOT NULL AND op_ns > 0 ORDER BY op_id"
    ).fetchnumpy()
    return np.ma.getdata(found["op_id"]), np.ma.getdata(found["share"])
