"""When the operations of two selections ran, in the language of scenarios."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from traceweave.errors import UsageError
from traceweave.replay.scenario import Scenario, selection
from traceweave.store.rows import Columns

_CATEGORIES = {"compute": "compute", "transfer": "communication", "copy": "memory"}

# an operation in two halves lasts from the start of one to the end of the other
_OPS = """
WITH calls AS (
    SELECT coalesce(gpu_op_id, host_op_id) AS op_id, op, group_id, bytes, NULL AS until_ns
    FROM collectives WHERE coalesce(gpu_op_id, host_op_id) IS NOT NULL
    UNION ALL
    SELECT
        unnest([gpu_op_id, receive_op_id]), op, group_id, bytes, start_local_ns + duration_ns
    FROM collectives WHERE receive_op_id IS NOT NULL
),
ops AS (
    SELECT
        o.op_id, o.rank, o.step, o.category, o.name, o.stream, g.class, k.group_id, k.bytes,
        coalesce(k.op, CASE WHEN o.category = 'communication' THEN o.name END) AS op,
        g.launch_pid, g.launch_tid, o.launch_start_local_ns AS launched_ns,
        o.start_local_ns AS start_ns,
        greatest(o.start_local_ns + o.duration_ns, k.until_ns) AS end_ns
    FROM device_ops AS o
    LEFT JOIN gpu_ops AS g ON g.op_id = o.op_id AND o.timeline = 'gpu'
    LEFT JOIN calls AS k ON k.op_id = o.op_id AND o.category = 'communication'
)
"""

_WITHIN = """
ASOF JOIN (
    SELECT
        rank, pid, tid, start_local_ns AS begins_ns,
        max(start_local_ns + duration_ns) OVER (
            PARTITION BY rank, pid, tid ORDER BY start_local_ns
        ) AS until_ns
    FROM host_ops
    WHERE {kinds} AND (name = ${name} OR name GLOB ${name})
) AS {name}
    ON {name}.rank = o.rank AND {name}.pid = o.launch_pid AND {name}.tid = o.launch_tid
    AND o.launched_ns >= {name}.begins_ns
"""


def selected_ops(
    con: duckdb.DuckDBPyConnection,
    _values: Mapping[str, object],
    selected: Callable[[], pa.Table],
) -> Columns:
    """Return when the operations ran that the texts `a` and `b` mean, on the clocks of their ranks:
    rank, side ('a' or 'b'), start_ns, end_ns.

    Raises UsageError for a text that makes no sense, or names what there is not.
    """
    [texts] = selected().to_pylist()
    comm_ops = [op for (op,) in con.execute("SELECT DISTINCT op FROM collectives").fetchall()]
    found: dict[str, list[Any]] = {name: [] for name in ("rank", "side", "start_ns", "end_ns")}
    for side, text in texts.items():
        asked = selection(text, comm_ops)
        sql, values = ops_of(asked, comm_ops)
        chosen = con.execute(f"SELECT rank, start_ns, end_ns FROM ({sql})", values).fetchnumpy()
        if not len(chosen["rank"]) and asked.names_something:
            raise UsageError(f"selection {text!r} selects nothing of this run")
        for name, column in chosen.items():
            found[name].append(np.ma.getdata(column))
        found["side"].append(np.full(len(chosen["rank"]), side, dtype=object))
    return {name: np.concatenate(columns) for name, columns in found.items()}


def ops_of(chosen: Scenario, comm_ops: Container[str]) -> tuple[str, dict[str, Any]]:
    """Return a SELECT of the operations of the device that a scenario is about, and the values that
    are prepared in it: op_id, rank, step, start_ns and end_ns on the clock of the rank.
    """
    categories = [_CATEGORIES[kind] for kind in sorted(chosen.kinds & _CATEGORIES.keys())]
    is_comm = chosen.op in comm_ops
    bounds = None if chosen.bytes is None else list(chosen.bytes)
    said = [
        ("kinds", categories, "list_contains($kinds, o.category)"),
        ("rank", chosen.ranks, "list_contains($rank, o.rank)"),
        ("step", chosen.steps, "list_contains($step, o.step)"),
        ("stream", chosen.streams, "list_contains($stream, o.stream)"),
        # names have brackets: as it stands, or as a pattern
        ("class", chosen.class_, "(o.class = $class OR o.class GLOB $class)"),
        ("name", chosen.name, "(o.name = $name OR o.name GLOB $name)"),
        ("op", chosen.op, "o.op = $op" if is_comm else "o.launched_ns <= op.until_ns"),
        ("module", chosen.module, "o.launched_ns <= module.until_ns"),
        ("group", chosen.groups, "list_contains($group, o.group_id)"),
        ("bytes", bounds, "o.bytes BETWEEN $bytes[1] AND $bytes[2]"),
    ]
    joins = ""
    if chosen.op is not None and not is_comm:
        joins += _WITHIN.format(kinds="kind = 'op'", name="op")
    if chosen.module is not None:
        joins += _WITHIN.format(kinds="kind NOT IN ('runtime', 'driver', 'op')", name="module")
    given = [(name, value, condition) for name, value, condition in said if value is not None]
    values = {n: sorted(v) if isinstance(v, frozenset) else v for n, v, _ in given}
    where = " AND ".join(condition for _, _, condition in given)
    selected = f"SELECT o.op_id, o.rank, o.step, o.start_ns, o.end_ns FROM ops AS o {joins}"
    return f"{_OPS} {selected} WHERE {where}", values
