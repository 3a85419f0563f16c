"""What is known of one operation: its columns, who launched it, the collective that it carries."""

from __future__ import annotations

from typing import Any

import orjson

from traceweave.errors import UsageError
from traceweave.explorer.asking import Asking
from traceweave.explorer.wire import exact

Answer = dict[str, Any]


def op_details(asking: Asking, timeline: str, kind: str, rank: int, op_id: int) -> Answer:
    """Return all columns of an operation of the lanes (kind 'op') or of a host thread ('host').

    Beside them: the call that launched it or what it launched, what the host was in meanwhile,
    innermost first, and the collectives that it carries with all their ranks, in the order of
    arrival. Raises UsageError if there is none.
    """
    on_gpu = kind == "op" and timeline == "gpu"
    found = asking.rows("op_gpu" if on_gpu else "op_host", rank=rank, id=op_id)
    if not found:
        raise UsageError(f"rank {rank} has no operation {op_id}")
    op = found[0]
    launch = op.get("launch_op_id")
    calls = asking.rows("op_calls", rank=rank, id=op_id)
    on_host = launch if on_gpu else op_id
    return {
        "columns": _plain(op),
        "launch": asking.rows("op_launch", rank=rank, id=launch) if launch is not None else [],
        "launched": [] if on_gpu else asking.rows("op_launched", rank=rank, id=op_id),
        "stack": asking.rows("op_stack", rank=rank, id=on_host) if on_host is not None else [],
        "collectives": [_collective(asking, call) for call in calls],
    }


def _collective(asking: Asking, call: Answer) -> Answer:
    """Return what its rank knows of a collective, and what all know together, if it is matched."""
    number = call["collective_id"]
    instances = asking.rows("instance", collective=number) if number is not None else []
    return {
        "call": _plain(call),
        "instance": _plain(instances[0]) if instances else None,
        "members": asking.rows("members", collective=number) if instances else [],
    }


def _plain(row: Answer) -> Answer:
    """Return a row as JavaScript can hold it, without what is NULL; `args` are its own keys."""
    found = {key: value for key, value in row.items() if value is not None and key != "args"}
    args = orjson.loads(row["args"]) if row.get("args") else {}
    found |= {f"args.{key}": value for key, value in args.items()}
    return {key: _exact(value) for key, value in found.items()}


def _exact(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return exact(value)
    return value if isinstance(value, bool | float | str) else str(value)
