"""What each distinct call of an operator computes: the table tw_call_work.

Calls with the same arguments do the same work, so formulas are evaluated once per distinct call,
hundreds of times, and not once per call, millions of times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import duckdb

from traceweave.analyses.formulas import MOST, NO_SHAPES, OPERATORS, Work, work
from traceweave.analyses.recorded_call import Signature, first_dtype

_KEYS = (
    '$."Input Dims"',
    '$."Input type"',
    '$."Concrete Inputs"',
    "$.kernel_flop",
    "$.kernel_num_gb",
)

# Operators with a formula, and those that carry a count of their own: torch.compile writes the
# FLOPs of a Triton kernel, and its bytes in GB, into the arguments of the op that launches it.
# A hash stands for the arguments, which are long and repeat in every layer, step and rank.
COUNTED_OPS = """
    SELECT *, hash(name, arguments_hash) AS signature
    FROM host_ops
    WHERE kind = 'op' AND name IN (SELECT unnest($operators))
    UNION ALL
    SELECT *, hash(name, arguments_hash) AS signature
    FROM host_ops
    WHERE kind = 'op' AND starts_with(name, 'triton') AND contains(args, '"kernel_flop"')
"""
"""Rows of host_ops that have a formula or a count, and what tells their calls apart."""

COUNTED_OPS_PARAMETERS = {"operators": list(OPERATORS)}

_TABLE = """
CREATE OR REPLACE TEMP TABLE tw_call_work (
    signature UBIGINT, name VARCHAR, dims VARCHAR,
    flops BIGINT, bytes BIGINT, dtype VARCHAR, reason VARCHAR
)
"""

# one call of each signature, to read its arguments from
_ARGUMENTS = """
SELECT op_id, name, json_extract_string(coalesce(args, '{}'), $keys)
FROM host_ops
WHERE op_id IN (SELECT unnest($op_ids))
"""


@dataclass
class CallWork:
    """The table tw_call_work, filled as calls are met.

    Its columns: signature, name, dims (shapes of the arguments, JSON), flops, bytes (inputs and
    outputs touched once), dtype, reason (why flops is NULL).
    """

    con: duckdb.DuckDBPyConnection
    _known: dict[int, tuple[str, bool]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.con.execute(_TABLE)

    def find(self, calls: Mapping[int, int]) -> list[tuple[str, bool]]:
        """Return of every signature the operator's name and whether its FLOPs are known.

        `calls`: op_id of one call of each.
        """
        new = {op_id: number for number, op_id in calls.items() if number not in self._known}
        if new:
            self._evaluate(new)
        return [self._known[number] for number in calls]

    def _evaluate(self, signatures: dict[int, int]) -> None:
        found = self.con.execute(
            _ARGUMENTS, {"op_ids": list(signatures), "keys": list(_KEYS)}
        ).fetchall()
        rows = []
        for op_id, name, arguments in found:
            done = _work(name, *arguments)
            number = signatures[op_id]
            rows.append(
                (number, name, arguments[0], done.flops, done.bytes, done.dtype, done.reason)
            )
            self._known[number] = name, done.flops is not None
        self.con.executemany("INSERT INTO tw_call_work VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


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
        return Work(reason="the count in the trace is not a number")
    if not 0 < flops <= MOST or not 0 <= (bytes_ or 0) <= MOST:
        return Work(reason="no products in it")
    return Work(flops, bytes_, first_dtype(types))
