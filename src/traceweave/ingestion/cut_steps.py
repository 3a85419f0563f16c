"""Steps that a file which ends early saw only in part: they are no steps of its ranks.

Their windows would end where the file does, and make the mean step look shorter than any was.
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from traceweave.ingestion.load import Outcome
from traceweave.words import folded, name_ranks

_CUT = """
CREATE OR REPLACE TEMP TABLE cut_steps AS
WITH ended AS (
    -- what came after the last step with work on the GPU lost its own
    SELECT
        rank, source_id,
        coalesce(
            max(start_local_ns) FILTER (device_start_local_ns IS NOT NULL), max(start_local_ns)
        ) AS from_ns
    FROM base.steps
    WHERE list_contains($sources, source_id)
    GROUP BY rank, source_id
)
SELECT rank, source_id, s.step
FROM base.steps AS s JOIN ended AS e USING (rank, source_id)
WHERE s.start_local_ns >= e.from_ns
"""

_LEAVE_OUT = """
DELETE FROM base.steps
WHERE (rank, source_id, step) IN (SELECT (rank, source_id, step) FROM cut_steps)
"""


def leave_out_cut_steps(
    con: duckdb.DuckDBPyConnection, outcomes: Sequence[Outcome]
) -> tuple[str, ...]:
    """Delete the steps in which files end early, and say so: a note per set of steps.

    Where no step would be left, all stay: nothing shows how long they were.
    """
    cut = [o.source_id for o in outcomes if o.loaded is not None and o.loaded.cut_short]
    if not cut:
        return ()
    con.execute(_CUT, {"sources": cut})
    try:
        [(left,)] = con.execute(
            "SELECT (SELECT count(*) FROM base.steps) - (SELECT count(*) FROM cut_steps)"
        ).fetchall()
        if left == 0:
            return ()
        con.execute(_LEAVE_OUT)
        rows = con.execute(
            "SELECT steps, list(rank ORDER BY rank) FROM"
            " (SELECT rank, list(step ORDER BY step) AS steps FROM cut_steps GROUP BY rank)"
            " GROUP BY steps ORDER BY steps"
        ).fetchall()
    finally:
        con.execute("DROP TABLE cut_steps")
    return tuple(_note(ranks, steps) for steps, ranks in rows)


def _note(ranks: list[int], steps: list[int]) -> str:
    files = "its file ends" if len(ranks) == 1 else "their files end"
    which = "step" if len(steps) == 1 else "steps"
    return (
        f"{name_ranks(ranks)} saw {which} {folded(steps)} only in part, as {files} there:"
        f" left out of {'its' if len(ranks) == 1 else 'their'} steps"
    )
