"""How long the host takes to ask for collectives."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import ARRIVAL, CALL, Nodes
from traceweave.replay.unions import Union

_CALLING = """
SELECT k.call_id, h.end_ns - h.start_ns
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id
WHERE k.gpu_op_id IS NULL AND h.kind = 'op'
"""

_LAUNCHING = """
SELECT
    k.rank, (hash(h.pid, h.tid) >> 1)::BIGINT AS chain,
    coalesce(c.start_ns, h.start_ns) - $origin AS begin,
    coalesce(c.end_ns, h.end_ns) - $origin AS until
FROM collectives AS k
JOIN host_ops AS h ON h.op_id = k.host_op_id
LEFT JOIN host_ops AS c
    ON c.rank = h.rank AND c.pid = h.pid AND c.tid = h.tid AND c.depth = h.depth - 1
    AND c.start_ns <= h.start_ns AND c.end_ns >= h.end_ns AND starts_with(c.name, 'c10d::')
WHERE h.kind = 'op' AND list_contains($ops, k.gpu_op_id)
"""
"""What launches collectives, with the operator around it, since the graph's origin."""


def calling(con: duckdb.DuckDBPyConnection, nodes: Nodes) -> Ints:
    """Return how long an operator takes to ask for each collective that the host transfers itself
    (gloo), ns, at the arrival of that; 0 at all other nodes."""
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


def without_launching(
    graph: Graph, con: duckdb.DuckDBPyConnection, nodes: Nodes, gone: Ints
) -> Nodes:
    """Return the nodes without what threads do in operators that launch transfers that are gone."""
    asked = con.execute(_LAUNCHING, {"origin": graph.origin, "ops": nodes.op_id[gone].tolist()})
    rows = asked.fetchnumpy()
    delay, length = nodes.delay.astype(np.int64), nodes.length.astype(np.int64)
    for rank, chain in {*zip(rows["rank"].tolist(), rows["chain"].tolist(), strict=True)}:
        mine = (rows["rank"] == rank) & (rows["chain"] == chain)
        spent = Union(rows["begin"][mine], rows["until"][mine])
        of = np.flatnonzero((nodes.rank == rank) & (nodes.chain == chain) & (nodes.sort >= CALL))
        start = nodes.start[of]
        delay[of] -= spent.covered(start - np.maximum(delay[of], 0), start)
        length[of] -= spent.covered(start, nodes.end[of])
    return nodes.with_(
        delay=delay, length=np.maximum(length, 0), held=np.minimum(nodes.held, np.maximum(delay, 0))
    )
