"""How long the host takes to ask for collectives that it transfers itself (gloo)."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.nodes import ARRIVAL, Nodes

_CALLING = """
SELECT k.call_id, h.end_ns - h.start_ns
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id
WHERE k.gpu_op_id IS NULL AND h.kind = 'op'
"""


def calling(con: duckdb.DuckDBPyConnection, nodes: Nodes) -> Ints:
    """Return how long an operator takes to ask for each collective, ns, at the arrival of that;
    0 at all other nodes."""
    arrival = np.flatnonzero((nodes.sort == ARRIVAL) & (nodes.launch >= 0))
    # one that asks later than that is another's work
    arrival = arrival[nodes.launch_lag[arrival] < nodes.length[nodes.launch[arrival]]]
    known = dict(con.execute(_CALLING).fetchall())
    found = np.zeros(len(nodes), np.int64)
    found[arrival] = [known.get(one, 0) for one in nodes.op_id[arrival].tolist()]
    return found


def without_calling(length: Ints, nodes: Nodes, calls: Ints, gone: Ints) -> None:
    """Take from the lengths of operators what they did to ask for transfers that are gone."""
    np.subtract.at(length, nodes.launch[gone - 1], calls[gone - 1])
