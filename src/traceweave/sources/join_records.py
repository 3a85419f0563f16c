"""What the job's own records add to the traces: the group of a collective, and its number there."""

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
