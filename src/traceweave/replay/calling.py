"""How long the host takes to ask for collectives."""

from __future__ import annotations

import duckdb
import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import Nodes, Sort
from traceweave.replay.unions import Union

_CALLING = """
SELECT k.call_id, h.end_ns - h.start_ns
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id
WHERE k.gpu_op_id IS NULL AND h.kind = 'op'
"""

_LAUNCHING = """
WITH asked AS (
    SELECT h.rank, h.pid, h.tid, h.start_ns, h.end_ns
    FROM (SELECT unnest($ops) AS gpu_op_id) AS g
    JOIN collectives AS k USING (gpu_op_id)
    JOIN host_ops AS h ON h.op_id = k.host_op_id
    WHERE h.kind = 'op'
),
around AS (
    SELECT rank, pid, tid, start_ns, end_ns
    FROM host_ops SEMI JOIN asked USING (rank)
    WHERE kind = 'op' AND starts_with(name, 'c10d::')
)
SELECT
    a.rank, (hash(a.pid, a.tid) >> 1)::BIGINT AS chain,
    CASE WHEN c.end_ns >= a.end_ns THEN c.start_ns ELSE a.start_ns END - $origin AS begin,
    CASE WHEN c.end_ns >= a.end_ns THEN c.end_ns ELSE a.end_ns END - $origin AS until
FROM asked AS a
ASOF LEFT JOIN around AS c
    ON c.rank = a.rank AND c.pid = a.pid AND c.tid = a.tid AND c.start_ns <= a.start_ns
"""
"""What launches collectives, with the operator around it, since the graph's origin."""


def calling(con: duckdb.DuckDBPyConnection, nodes: Nodes) -> Ints:
    """Return how long an operator takes to ask for each collective that the host transfers itself
    (gloo), ns, at the arrival of that; 0 at all other nodes."""
    arrival = np.flatnonzero((nodes.sort == Sort.ARRIVAL) & (nodes.launch >= 0))
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
        of = np.flatnonzero(
            (nodes.rank == rank) & (nodes.chain == chain) & (nodes.sort >= Sort.CALL)
        )
        start = nodes.start[of]
        delay[of] -= spent.covered(start - np.maximum(delay[of], 0), start)
        length[of] -= spent.covered(start, nodes.end[of])
    return nodes.with_(
        delay=delay, length=np.maximum(length, 0), held=np.minimum(nodes.held, np.maximum(delay, 0))
    )
