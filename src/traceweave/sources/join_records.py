"""What the job's own records add to the traces: the group of a collective, and its number there."""

from __future__ import annotations

import duckdb

from traceweave import words
from traceweave.vocabulary import script

# Where a dump lists no members, as gloo's, the ranks whose dumps name the group are all of them,
# if every rank of the job has left a dump and no two differ in what an operation was.
_COMPLETE_GROUPS = """
CREATE OR REPLACE TEMP TABLE members AS
WITH dumped AS (
    SELECT count(DISTINCT rank) AS ranks, max(rank) + 1 AS at_least FROM base.flight_groups
),
known AS (SELECT max(world_size) AS ranks FROM base.rank_sources),
differing AS (
    SELECT group_name FROM base.flight_calls WHERE NOT is_p2p
    GROUP BY group_name, seq HAVING count(DISTINCT op) > 1
)
SELECT group_name, list(DISTINCT rank ORDER BY rank)::INTEGER[] AS ranks
FROM base.flight_groups
WHERE (SELECT d.ranks = coalesce(k.ranks, d.at_least) FROM dumped AS d, known AS k)
    AND group_name NOT IN (SELECT group_name FROM differing)
GROUP BY group_name
HAVING bool_and(group_ranks IS NULL);
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
    before = _count(con, f"SELECT count(*) {wanting}")
    if not before:
        return ()
    found = _count(con, "SELECT count(*) FROM base.inferences WHERE evidence = 'flight recorder'")
    return (
        f"flight recorder dumps tell the group and number of {words.count(found)} of"
        f" {words.count(before)} collectives whose trace does not",
    )


def _count(con: duckdb.DuckDBPyConnection, query: str) -> int:
    row = con.execute(query).fetchone()
    assert row is not None
    return int(row[0])
