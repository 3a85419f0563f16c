"""Which ranks of the run the processes in NCCL's own records are."""

from __future__ import annotations

import duckdb

from traceweave import words
from traceweave.vocabulary import script

_PROCESSES = """
SELECT count(*), count(rank)
FROM (SELECT DISTINCT host, pid, gpu FROM nccl_members)
AS p LEFT JOIN nccl_ranks AS r
    ON r.pid = p.pid AND r.host IS NOT DISTINCT FROM p.host AND r.gpu IS NOT DISTINCT FROM p.gpu
"""


_OF_TWO_JOBS = """
WITH made AS (
    SELECT host, device, pid, list(DISTINCT identity) AS communicators
    FROM base.nccl_communicators WHERE identity IS NOT NULL AND device IS NOT NULL
    GROUP BY host, device, pid
)
SELECT a.host, a.device, a.pid, b.pid
FROM made AS a JOIN made AS b
    ON a.host IS NOT DISTINCT FROM b.host AND a.device = b.device AND a.pid < b.pid
WHERE NOT list_has_any(a.communicators, b.communicators)
ORDER BY ALL LIMIT 1
"""
"""One GPU is of one process of a job, or of several that share a communicator."""


def join_nccl(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Give the processes of NCCL's logs and Inspector their global rank, where it is certain.

    Runs once all files are loaded. Returns notes: how many have one, and whether they are of more
    than one job.
    """
    if not con.execute("SELECT 1 FROM base.nccl_communicators LIMIT 1").fetchall():
        return ()
    con.execute(script(__package__, "join_nccl.sql"))
    processes, known = con.execute(_PROCESSES).fetchall()[0]
    apart = (
        f"NCCL's records are of more than one job: processes {pid} and {other} used GPU {gpu} of"
        f" {host or 'a host'} and have no communicator in common; keep those of one job"
        for host, gpu, pid, other in con.execute(_OF_TWO_JOBS).fetchall()
    )
    return (
        *apart,
        f"NCCL's records: {words.count(known)} of {words.count(processes)} processes (one per GPU)"
        " are known to be ranks of this run",
    )
