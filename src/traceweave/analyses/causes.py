"""What the names of causes mean, for those who write about them; analyses call the same macros."""

from __future__ import annotations

import duckdb

from traceweave.analyses.runner import provide

IDLE = "tw_gap_causes()"
"""Why a device runs nothing: causes of `idle_causes`."""
EXPOSED = "tw_exposed_causes()"
"""Why no compute hides communication: causes of `exposed_causes`."""
LATE = "tw_late_causes()"
"""Why a rank comes last: causes of `stragglers`."""


def cause_words(con: duckdb.DuckDBPyConnection, of: str, column: str = "words") -> dict[str, str]:
    """Return every cause of one of the above and its words, or its `label`, in order."""
    sql = f"SELECT cause, {column} FROM {of} WHERE {column} IS NOT NULL ORDER BY place"
    provide(con, sql)
    return dict(con.execute(sql).fetchall())
