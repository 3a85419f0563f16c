"""Which ranks of the run the processes in NCCL's own records are."""

from __future__ import annotations

from importlib import resources

import duckdb

from traceweave import words

_PROCESSES = """
SELECT count(*), count(rank)
FROM (SELECT DISTINCT host, pid, gpu FROM nccl_members)
AS p LEFT JOIN nccl_ranks AS r
    ON r.pid = p.pid AND r.host IS NOT DISTINCT FROM p.host AND r.gpu IS NOT DISTINCT FROM p.gpu
"""


def join_nccl(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Give the processes of NCCL's logs and Inspector their global rank, where it is certain.

    Runs once all files are loaded. Returns a note on how many have one.
    """
    if not con.execute("SELECT 1 FROM base.nccl_communicators LIMIT 1").fetchall():
        return ()
    con.execute(resources.files(__package__).joinpath("join_nccl.sql").read_text("utf-8"))
    processes, known = con.execute(_PROCESSES).fetchall()[0]
    return (
        f"NCCL's records: {words.count(known)} of {words.count(processes)} processes (one per GPU)"
        " are known to be ranks of this run",
    )
