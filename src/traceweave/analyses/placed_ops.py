"""Where every operator with a formula lies and what it launched: the table tw_placed_ops.

Some ranks at a time are read as columns and swept thread by thread: the memory this takes does not
grow with the number of ranks, and nothing that has a row per kernel is joined or sorted by DuckDB.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.analyses.op_flops import COUNTED_OPS, COUNTED_OPS_PARAMETERS, CallWork
from traceweave.analyses.sweeps.columns import to_arrow, to_numpy
from traceweave.analyses.sweeps.operators import Launches, Operators, Ranges, operators
from traceweave.analyses.sweeps.threads import Threads, by_thread, numbered
from traceweave.analyses.sweeps.times import NEVER

MOST_HOST_OPS = 6_000_000
"""Host ops of the ranks that are read at a time."""

_TABLES = """
CREATE OR REPLACE TEMP TABLE tw_kernel_classes AS
SELECT row_number() OVER (ORDER BY class) AS class_id, class
FROM (SELECT class FROM gpu_ops GROUP BY class);

DROP TABLE IF EXISTS tw_placed_ops;

CREATE OR REPLACE TEMP TABLE tw_placed_so_far (
    rank INTEGER, step BIGINT, op_id BIGINT, signature UBIGINT, computed_as UBIGINT,
    recorded BOOLEAN, place UTINYINT, kernels BIGINT, device_ns BIGINT, class_id BIGINT,
    is_tf32 BOOLEAN
);

CREATE OR REPLACE TEMP TABLE tw_other_kernels (
    rank INTEGER, step BIGINT, class_id BIGINT, kernels BIGINT, device_ns BIGINT
);

CREATE OR REPLACE TEMP TABLE tw_launching_ranks (rank INTEGER);
"""

_SIZES = """
SELECT rank, sum(ops)
FROM (
    SELECT rank, count(*) AS ops FROM host_ops GROUP BY rank
    UNION ALL
    SELECT rank, 0 FROM ranks
    UNION ALL
    SELECT NULL, 0
)
GROUP BY rank
ORDER BY rank
"""

# No column is NULL: -1 and NEVER stand for no rank and no step. Threads are hashes.
_OPS = f"""
SELECT
    coalesce(rank, -1) AS rank, hash(rank, pid, tid) AS thread, op_id, signature,
    start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns,
    coalesce(depth, 2147483647) AS depth, coalesce(step, {NEVER}) AS step,
    (sequence IS NOT NULL)::UTINYINT AS recorded
FROM ({COUNTED_OPS})
WHERE {{ranks}}
"""

# 1: backward, 3: compiled, so that recomputation cannot be told, 4: optimizer
_RANGES = """
SELECT
    hash(rank, pid, tid) AS thread,
    start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns,
    CASE WHEN contains(name, 'Compiled') THEN 3::UTINYINT ELSE 1 END AS sort
FROM host_ops
WHERE {ranks} AND kind = 'op' AND starts_with(name, 'autograd::engine::evaluate_function: ')
UNION ALL
SELECT hash(rank, nullif(pid, -1), nullif(tid, -1)), start_local_ns, end_local_ns, 4
FROM tw_updates
WHERE {ranks}
"""

# sort: number of the class, whether it computes in TF32, and whether it is compute. The name is
# searched without a regular expression: such searches DuckDB makes once per distinct name.
_KERNELS = f"""
SELECT
    coalesce(rank, -1) AS rank, hash(rank, launch_pid, launch_tid) AS thread,
    coalesce(launch_start_local_ns, {NEVER}) AS called_ns, duration_ns,
    coalesce(step, {NEVER}) AS step,
    4 * list_position($classes, class)
    + 2 * (contains(lower(name), 'tf32') OR contains(lower(name), 's1688'))::INTEGER
    + (category = 'compute')::INTEGER AS sort
FROM gpu_ops
WHERE {{ranks}}
"""

_STORE_OPS = f"""
INSERT INTO tw_placed_so_far
SELECT
    nullif(rank, -1), nullif(step, {NEVER}), op_id, signature, computed_as, recorded > 0,
    place, nullif(kernels, 0), nullif(device_ns, -1), CASE WHEN sort >= 0 THEN sort // 4 END,
    sort >= 0 AND sort & 2 > 0
FROM swept
WHERE place & 1 > 0
"""

_STORE_KERNELS = f"""
INSERT INTO tw_other_kernels
SELECT nullif(rank, -1), nullif(step, {NEVER}), sort // 4, count(*), sum(duration_ns)
FROM swept
WHERE is_left > 0
GROUP BY ALL
"""


class Swept(NamedTuple):
    """What is found in a block."""

    ops: pa.Table
    """Operators with their columns and those of Placed."""
    kernels: pa.Table
    """With is_left: compute in no operator."""
    ranks: list[int]
    """That launched anything by a call that is there."""


def create_placed_ops(con: duckdb.DuckDBPyConnection) -> None:
    """Make tw_placed_ops, and beside it tw_call_work (op_flops.CallWork), tw_kernel_classes
    (class_id, class), tw_other_kernels (compute that no operator launched, by rank, step and class)
    and tw_launching_ranks (rank).

    tw_placed_ops has the operators with a formula that are in no other one (or, if it is known what
    they compute, in no other one of these): rank, step, op_id, signature (in tw_call_work),
    recorded (by autograd), computed_as (a signature) and place (sweeps.operators.Placed), kernels,
    device_ns, and of its longest kernel class_id and is_tf32; NULL if it launched none.
    """
    con.execute(_TABLES)
    classes = con.execute("SELECT class FROM tw_kernel_classes ORDER BY class_id").fetchall()
    call_work = CallWork(con)
    with ThreadPoolExecutor(1) as ahead:
        swept = None
        # a block is swept while the next one is read
        for ranks in _blocks(con):
            ops = _read(con, _OPS, ranks, COUNTED_OPS_PARAMETERS)
            ranges = _read(con, _RANGES, ranks)
            kernels = _read(con, _KERNELS, ranks, {"classes": [name for (name,) in classes]})
            if swept is not None:
                _store(con, swept.result())
            swept = ahead.submit(_swept, _with_calls(ops, call_work), ranges, kernels)
        if swept is not None:
            _store(con, swept.result())
    # not before it is whole: it is not made again where it is there
    con.execute("ALTER TABLE tw_placed_so_far RENAME TO tw_placed_ops")


def _blocks(con: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, int] | None]:
    """Return first and last ranks of blocks of MOST_HOST_OPS or less, or of one rank.

    None is the block of what belongs to no rank.
    """
    block: list[int] = []
    total = 0
    for rank, size in con.execute(_SIZES).fetchall():
        if rank is None:
            yield None
            continue
        if block and total + size > MOST_HOST_OPS:
            yield block[0], block[-1]
            block, total = [], 0
        block.append(rank)
        total += size
    if block:
        yield block[0], block[-1]


def _read(
    con: duckdb.DuckDBPyConnection,
    query: str,
    ranks: tuple[int, int] | None,
    parameters: Mapping[str, object] | None = None,
) -> pa.Table:
    parameters = dict(parameters or {})
    if ranks is not None:
        parameters["first"], parameters["last"] = ranks
    which = "rank IS NULL" if ranks is None else "rank BETWEEN $first AND $last"
    return con.sql(query.replace("{ranks}", which), params=parameters).to_arrow_table()


def _with_calls(ops: pa.Table, call_work: CallWork) -> pa.Table:
    """Return operators with two more columns: name (a number) and usable (its FLOPs are known)."""
    codes, signatures = numbered(ops["signature"])
    # of those with one number the first stays
    example = np.zeros(len(signatures), np.int64)
    example[codes[::-1]] = to_numpy(ops["op_id"])[::-1]
    found = call_work.find(dict(zip(signatures, example.tolist(), strict=True)))
    numbers = {name: number for number, (name, _) in enumerate(found)}
    names = np.array([numbers[name] for name, _ in found], np.int64)[codes]
    usable = np.array([is_usable for _, is_usable in found], np.uint8)[codes]
    return ops.append_column("name", to_arrow(names)).append_column("usable", to_arrow(usable))


def _swept(ops: pa.Table, ranges: pa.Table, kernels: pa.Table) -> Swept:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return _sweep(ops, ranges, kernels, pool)


def _sweep(ops: pa.Table, ranges: pa.Table, kernels: pa.Table, pool: ThreadPoolExecutor) -> Swept:
    of_op = ("start_ns", "end_ns", "depth", "name", "usable")
    of_range, of_kernel = ("start_ns", "end_ns", "sort"), ("called_ns", "duration_ns", "sort")
    columns = ((*of_op, "signature"), of_range, of_kernel)
    op_rows, range_rows, kernel_rows = pool.map(by_thread, (ops, ranges, kernels), columns)
    place, launched = np.zeros(len(ops), np.uint8), np.zeros((3, len(ops)), np.int64)
    computed_as = op_rows.columns["signature"].copy()
    is_left = kernel_rows.columns["sort"] & 1 > 0

    def sweep(thread: int) -> None:
        at = op_rows.at(thread)
        done = operators(
            Operators(*op_rows.of(thread, *of_op)),
            Ranges(*range_rows.of(thread, *of_range)),
            Launches(*kernel_rows.of(thread, *of_kernel)),
        )
        place[at], launched[:, at] = done.place, done.launched
        computed_as[at] = computed_as[at][done.computed_as]
        is_left[kernel_rows.at(thread)] &= ~done.is_owned

    for _ in pool.map(sweep, op_rows.rows):
        continue
    found = {"place": place, "computed_as": computed_as}
    found |= zip(("kernels", "device_ns", "sort"), launched, strict=True)
    return Swept(
        op_rows.added_to(ops, **found),
        kernel_rows.added_to(kernels, is_left=is_left.astype(np.uint8)),
        _launching_ranks(kernels, kernel_rows),
    )


def _launching_ranks(table: pa.Table, kernels: Threads) -> list[int]:
    """Return the ranks with a launching call in the trace; kernels of a thread are of one rank."""
    ranks, called = to_numpy(table["rank"]), kernels.columns["called_ns"]
    threads = [at for at in kernels.rows.values() if np.any(called[at] != NEVER)]
    return sorted({int(ranks[kernels.order[at.start]]) for at in threads})


def _store(con: duckdb.DuckDBPyConnection, swept: Swept) -> None:
    con.from_arrow(swept.ops).query("swept", _STORE_OPS)
    con.from_arrow(swept.kernels).query("swept", _STORE_KERNELS)
    con.execute(
        "INSERT INTO tw_launching_ranks SELECT nullif(unnest($ranks), -1)", {"ranks": swept.ranks}
    )
