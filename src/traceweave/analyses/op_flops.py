"""What every operator of a run computes: the table tw_op_flops.

Calls with the same arguments do the same work, so formulas are evaluated once per distinct call,
hundreds of times, and not once per call, millions of times.
"""

from __future__ import annotations

import duckdb

from traceweave.analyses.formulas import (
    MOST,
    NO_SHAPES,
    OPERATORS,
    Work,
    work,
)
from traceweave.analyses.recorded_call import Signature, first_dtype

# Operators with a formula, and those that carry a count of their own: torch.compile writes the
# FLOPs of a Triton kernel, and its bytes in GB, into the arguments of the op that launches it.
# A hash stands for the arguments, which are long and repeat in every layer, step and rank: two of
# some thousand distinct calls share one of 64 bits once in 10**12 runs.
_CALLS = """
CREATE OR REPLACE TEMP TABLE tw_op_calls AS
SELECT
    op_id, rank, hash(rank, pid, tid) AS thread, step, depth, sequence IS NOT NULL AS recorded,
    start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns,
    hash(name, json_extract_string(coalesce(args, '{}'), $keys)) AS call_hash
FROM host_ops
WHERE kind = 'op'
    AND (
        name IN (SELECT unnest($operators))
        OR (starts_with(name, 'triton') AND contains(args, '"kernel_flop"'))
    )
"""
_KEYS = (
    '$."Input Dims"',
    '$."Input type"',
    '$."Concrete Inputs"',
    "$.kernel_flop",
    "$.kernel_num_gb",
)

# one call of each signature, to read its arguments from
_SIGNATURES = """
CREATE OR REPLACE TEMP TABLE tw_signatures AS
SELECT row_number() OVER () AS signature, call_hash, min(op_id) AS op_id
FROM tw_op_calls
GROUP BY call_hash
"""
_ARGUMENTS = """
SELECT s.signature, h.name, json_extract_string(coalesce(h.args, '{}'), $keys) AS arguments
FROM tw_signatures AS s JOIN host_ops AS h USING (op_id)
"""

_WORK = """
CREATE OR REPLACE TEMP TABLE tw_call_work (
    signature BIGINT, name VARCHAR, dims VARCHAR,
    flops BIGINT, bytes BIGINT, dtype VARCHAR, reason VARCHAR
)
"""

_FLOPS = """
CREATE OR REPLACE TEMP TABLE tw_op_flops AS
SELECT c.* EXCLUDE (call_hash), s.signature, w.flops IS NOT NULL AS usable
FROM tw_op_calls AS c
JOIN tw_signatures AS s USING (call_hash)
JOIN tw_call_work AS w USING (signature)
"""


def create_op_flops(con: duckdb.DuckDBPyConnection) -> None:
    """Make the tables tw_op_flops: the operators that have a formula, and tw_call_work: what each
    distinct call of them computes.

    tw_op_flops: op_id, rank, step, depth (host_ops), thread (a hash), start_ns and end_ns on the
    rank's own clock, recorded (by autograd), signature (the same for calls with the same
    arguments), usable (its FLOPs are known).
    tw_call_work: signature, name, dims (shapes of the arguments, JSON), flops, bytes (inputs and
    outputs touched once), dtype, reason (why flops is NULL). torch is imported only if operators
    with shapes are there.
    """
    con.execute(_CALLS, {"operators": list(OPERATORS), "keys": list(_KEYS)})
    con.execute(_SIGNATURES)
    con.execute(_WORK)
    rows = []
    for number, name, arguments in con.execute(_ARGUMENTS, {"keys": list(_KEYS)}).fetchall():
        done = _work(name, *arguments)
        rows.append((number, name, arguments[0], done.flops, done.bytes, done.dtype, done.reason))
    if rows:
        con.executemany("INSERT INTO tw_call_work VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    con.execute(_FLOPS)
    for table in ("tw_op_calls", "tw_signatures"):
        con.execute(f"DROP TABLE {table}")


def _work(
    name: str,
    dims: str | None,
    types: str | None,
    concrete: str | None,
    kernel_flop: str | None,
    kernel_num_gb: str | None,
) -> Work:
    if name not in OPERATORS:
        return _carried(types, kernel_flop, kernel_num_gb)
    if dims is None or types is None:
        return Work(reason=NO_SHAPES)
    return work(Signature(name, dims, types, concrete))


def _carried(types: str | None, kernel_flop: str | None, kernel_num_gb: str | None) -> Work:
    """What the trace itself says of a kernel; a kernel without products has no count, or 0."""
    try:
        flops = round(float(kernel_flop or 0))
        bytes_ = round(float(kernel_num_gb) * 1e9) if kernel_num_gb else None
    except (OverflowError, ValueError):
        return Work(reason="the count in the trace is no number")
    if not 0 < flops <= MOST or not 0 <= (bytes_ or 0) <= MOST:
        return Work(reason="no products in it")
    return Work(flops, bytes_, first_dtype(types))
