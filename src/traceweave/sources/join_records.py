"""What the job's own records add to the traces, once all files are loaded: which group a collective
is of, and its number there (flight recorder); which ranks NCCL's own records are of.
"""

from __future__ import annotations

import duckdb

from traceweave import words
from traceweave.vocabulary import script

# Where a dump lists no members, as gloo's: of the group of all ranks all, or those that another
# rank's dump lists, of others the ranks whose dumps name it. That needs dumps of every rank of the
# job; of others also that no two differ in what an operation was, and that one has finished which
# waits for every member: before that, a member that has not come is named nowhere.
_COMPLETE_GROUPS = """
CREATE OR REPLACE TEMP TABLE members AS
WITH dumped AS (
    SELECT
        list(DISTINCT rank ORDER BY rank)::INTEGER[] AS ranks,
        greatest(max(rank), max(list_max(group_ranks))) + 1 AS at_least
    FROM base.flight_groups
),
known AS (SELECT max(world_size) AS ranks FROM base.rank_sources),
complete AS (
    SELECT d.ranks FROM dumped AS d, known AS k WHERE len(d.ranks) = coalesce(k.ranks, d.at_least)
),
issued AS (
    SELECT
        group_name, seq, count(DISTINCT op) AS ops,
        bool_or(retired AND op IN (
            'all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier'
        )) AS waited_for_all
    FROM base.flight_calls WHERE NOT is_p2p GROUP BY group_name, seq
),
proven AS (
    SELECT group_name FROM issued
    GROUP BY group_name HAVING max(ops) = 1 AND bool_or(waited_for_all)
)
SELECT
    group_name,
    CASE WHEN bool_or(group_desc = 'default_pg')
        THEN coalesce((SELECT ranks FROM complete), max(group_ranks))
        ELSE list(DISTINCT rank ORDER BY rank)::INTEGER[] END AS ranks
FROM base.flight_groups
GROUP BY group_name
HAVING bool_or(group_desc = 'default_pg')
    OR bool_and(group_ranks IS NULL) AND group_name IN (FROM proven) AND EXISTS (FROM complete);
UPDATE base.flight_groups AS f SET group_ranks = m.ranks
FROM members AS m WHERE f.group_name = m.group_name;
UPDATE base.flight_calls AS f SET group_ranks = m.ranks
FROM members AS m WHERE f.group_name = m.group_name;
"""

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


def join_records(con: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """Infer from flight recorder dumps of the same ranks which group a collective is of, and its
    number there.

    Runs once all files are loaded and before they are woven. Returns a note on what was joined.
    """
    con.execute("DELETE FROM base.inferences WHERE evidence = 'flight recorder'")
    if not con.execute("SELECT 1 FROM base.flight_groups LIMIT 1").fetchall():
        return ()
    con.execute(_COMPLETE_GROUPS)
    con.execute(script(__package__, "join_records.sql"))
    wanting = "FROM base.collective_calls WHERE seq IS NULL AND op NOT IN ('send', 'recv')"
    inferred = "FROM base.inferences WHERE evidence = 'flight recorder'"
    ((before, found),) = con.execute(
        f"SELECT (SELECT count(*) {wanting}), (SELECT count(*) {inferred})"
    ).fetchall()
    if not before:
        return ()
    return (
        f"flight recorder dumps tell the group and number of {words.count(found)} of"
        f" {words.count(before)} collectives whose trace does not",
    )


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
