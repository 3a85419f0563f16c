"""Where the bytes of every process group go, what they go over, and how fast that is at most."""

from __future__ import annotations

import duckdb

from traceweave.store.rows import insert_rows
from traceweave.vocabulary.gpus import find_links

_NODES = """
SELECT
    g.group_id, g.size,
    CASE WHEN n.nodes = 1 THEN 'intra-node'
         WHEN n.nodes = g.size THEN 'inter-node'
         WHEN n.nodes > 1 THEN 'mixed'
         WHEN h.hosts = 1 AND h.known = g.size THEN 'intra-node'
         WHEN h.hosts = h.known AND h.known = g.size THEN 'inter-node'
         WHEN h.hosts BETWEEN 2 AND h.known - 1 THEN 'mixed' END AS link,
    h.gpu_name, n.ring_gbps, n.paths, n.network
FROM groups AS g
LEFT JOIN (
    SELECT
        group_id, CASE WHEN min(nodes) = max(nodes) THEN any_value(nodes) END AS nodes,
        nullif(min(ring_gbps), 0) AS ring_gbps, arg_min(paths, ring_gbps) AS paths,
        any_value(network) AS network
    FROM (SELECT unnest(group_ids) AS group_id, nodes, ring_gbps, paths, network FROM communicators)
    GROUP BY group_id
) AS n ON n.group_id = g.group_id
LEFT JOIN (
    SELECT
        group_id, count(host) AS known, count(DISTINCT host) AS hosts,
        CASE WHEN count(DISTINCT gpu_name) = 1 THEN any_value(gpu_name) END AS gpu_name
    FROM (SELECT group_id, unnest(ranks) AS rank FROM groups) JOIN ranks USING (rank)
    GROUP BY group_id
) AS h ON h.group_id = g.group_id
WHERE g.size > 1
"""
"""NCCL comes first: where NVLink spans hosts (MNNVL) it counts them as one node."""

_DIRECT = ("NVL", "NVB", "XGMI")
"""Paths from GPU to GPU that are no PCIe, as NCCL names them (PATH_NVL in graph/topo.h)."""


def write_links(con: duckdb.DuckDBPyConnection) -> None:
    """Set link, via and link_gbps of groups, once groups and base.matches are written.

    What NCCL's own records say of a communicator's nodes comes before host names. Two members on
    one host and a third elsewhere make a group mixed, whoever else is in it; else the hosts of all
    members must be known, or the link is NULL.
    """
    found = con.execute(_NODES).fetchall()
    con.execute("CREATE OR REPLACE TEMP TABLE tw_links AS"
                " SELECT group_id, link, via, link_gbps FROM groups LIMIT 0")  # fmt: skip
    rows = []
    for group, size, link, gpu, ring_gbps, paths, network in found:
        if link == "intra-node":
            via, gbps = _inside(size, gpu, ring_gbps, paths and paths.split("/")[0])
        else:
            via, gbps = (network, ring_gbps) if link is not None else (None, None)
        rows.append({"group_id": group, "link": link, "via": via, "link_gbps": gbps})
    insert_rows(con, "tw_links", rows)
    con.execute(
        "UPDATE groups SET link = l.link, via = l.via, link_gbps = l.link_gbps"
        " FROM tw_links AS l WHERE l.group_id = groups.group_id"
    )
    con.execute("DROP TABLE tw_links")


def _inside(
    size: int, gpu: str | None, ring_gbps: float | None, path: str | None
) -> tuple[str | None, float | None]:
    """Return what connects GPUs of one node, and the most that it carries.

    A GPU that may have two kinds of link is known where NCCL says which path its rings take.
    """
    known = [
        link
        for link in (find_links(gpu) if gpu is not None else ())
        if path is None or (path in _DIRECT) != link.name.startswith("PCIe")
    ]
    if len(known) != 1:
        return path, ring_gbps
    [link] = known
    part = min((size - 1) / link.peers, 1) if link.peers else 1
    return link.name, link.gbps * part
