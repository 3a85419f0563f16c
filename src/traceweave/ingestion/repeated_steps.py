"""Steps of a rank that several of its files have: each file numbers its own from the start."""

from __future__ import annotations

import duckdb

from traceweave.errors import InputError
from traceweave.store.schema import source_tables

_REPEATED = """
SELECT rank, step, min(path), max(path), min(source) IN ('ProfilerStep', 'nvtx')
FROM base.steps JOIN sources USING (source_id)
GROUP BY rank, step HAVING count(*) > 1 ORDER BY rank, step LIMIT 1
"""

_PLACES = """
CREATE OR REPLACE TEMP TABLE places AS
SELECT
    rank, source_id,
    (row_number() OVER (PARTITION BY rank ORDER BY first_local_ns, source_id) - 1)
        * (SELECT max(step) + 1 FROM base.steps) AS steps_before
FROM base.rank_sources
"""


def number_apart(
    con: duckdb.DuckDBPyConnection, one_run: bool, added: bool = False
) -> list[tuple[int, int, int]]:
    """Number the steps of a rank's later files on where files have the same ones: what is asked per
    step would count two as one. Return rank, source_id and what was added, of what is numbered on.

    Raises InputError where a run's own numbers repeat and nobody says that it is `one_run`: a job
    numbers its steps on, but one after the other in a container have the same ranks and processes.
    Also where files were `added` to a run, in which they may be numbered on already.
    """
    repeated = con.execute(_REPEATED).fetchone()
    if repeated is None:
        return []
    rank, step, one, other, is_marked = repeated
    if is_marked and not one_run:
        raise InputError(
            f"{one} and {other} both have step {step} of rank {rank}: they are of two runs, or"
            " of recordings that number their steps anew; read each by itself, or with"
            " --one-run, which numbers them on"
        )
    if added:
        raise InputError(
            f"{one} and {other} both have step {step} of rank {rank}; ingest all traces again,"
            " which numbers them on"
        )
    con.execute(_PLACES)
    for table in source_tables(con, "rank", "step"):
        con.execute(
            f"UPDATE {table} AS t SET step = step + steps_before FROM places AS p"
            " WHERE t.rank = p.rank AND t.source_id = p.source_id AND steps_before > 0"
            " AND step IS NOT NULL"
        )
    numbered = con.execute("FROM places WHERE steps_before > 0 ORDER BY ALL").fetchall()
    con.execute("DROP TABLE places")
    return numbered
