"""What a clock fit reads of the ranks, and what it writes: the table clocks, and where causality
and the clocks do not go together.
"""

from __future__ import annotations

from dataclasses import asdict

import duckdb

from traceweave.clocks.clock import Clock, RankInfo, Violations
from traceweave.store.rows import insert_rows
from traceweave.words import EPOCH_FROM_NS, count, duration

CAUSALITY = "causality_violated"
"""Kind of the row of ingest_issues about instances that end before they have begun everywhere."""
CONTRADICTION = "causality_contradicts_itself"
"""Kind of the row about bounds that had to be loosened, because no clocks satisfy all of them."""


def read_ranks(con: duckdb.DuckDBPyConnection) -> list[RankInfo]:
    """Read host, time span and whose clock times its calls of every rank, in ascending order."""
    rows = con.execute(
        # ranks in one report were recorded by one profiler on one host, named or not; a host's
        # clock is theirs if their times are of a wall clock, and not from the start of something
        "WITH sources AS (SELECT *, count(DISTINCT rank) OVER (PARTITION BY source_id) > 1"
        " AND format = 'nsys' AS together FROM base.rank_sources) SELECT rank,"
        " coalesce(min(host) FILTER (WHERE together OR first_local_ns >= $wall_clock),"
        " min('report ' || source_id) FILTER (WHERE together)),"
        " coalesce(min(first_local_ns), 0), coalesce(max(last_local_ns), 0),"
        " rank IN (SELECT rank FROM base.collective_calls"
        " WHERE gpu_op_id IS NOT NULL OR evidence <> 'host op')"
        " FROM sources GROUP BY rank ORDER BY rank",
        {"wall_clock": EPOCH_FROM_NS},
    ).fetchall()
    return [RankInfo(*row) for row in rows]


def write_clocks(
    con: duckdb.DuckDBPyConnection, clocks: list[Clock], slack_ns: int, left: Violations
) -> None:
    """Replace the table clocks, and the issues about causality: by how much, ns, it had to be
    loosened, and what still contradicts it.
    """
    con.execute("DELETE FROM clocks")
    insert_rows(con, "clocks", map(asdict, clocks))
    con.execute("DELETE FROM ingest_issues WHERE kind IN (?, ?)", [CAUSALITY, CONTRADICTION])
    if left.count:
        insert_rows(con, "ingest_issues", [_violated(left)])
    if slack_ns:
        insert_rows(con, "ingest_issues", [_contradicting(slack_ns)])


def _violated(left: Violations) -> dict[str, object]:
    return {
        "kind": CAUSALITY,
        "count": left.count,
        "example": f"rank {left.early_rank} before rank {left.late_rank}",
        "message": f"of {count(left.checked)} synchronizing collectives, these end on one rank"
        f" before another has begun, by up to {duration(left.worst_ns)}: differences that small"
        " between these ranks are not to be trusted",
    }


def _contradicting(slack_ns: int) -> dict[str, object]:
    return {
        "kind": CONTRADICTION,
        "count": 1,
        "message": "no clocks satisfy all collectives; every bound was loosened by"
        f" {duration(slack_ns)}, so bound_ns is an estimate in this run, not a proof",
    }
