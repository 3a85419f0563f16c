"""Whether a group of gloo may have been made while the profiler ran, so that no trace lists it.

A call that makes a group records nothing but takes time. So calls whose first one comes after a
pause of the threads that issue collectives may be of such a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

import duckdb

from traceweave.matching.calls import Calls
from traceweave.store.schema import LEAST_PAUSE_NS

STEPS = 3
"""Steps of which calls have to come in each to be of a group that was there before the first."""


@dataclass(frozen=True)
class Recording:
    """When a rank may have made groups that one of its files does not list."""

    pauses: list[tuple[int, int]]
    """In which its threads that issue collectives recorded nothing: start and end, in order."""
    steps: list[tuple[int, int, int]]
    """Number, start and end, in order."""

    def may_have_made(self, calls: Calls) -> bool:
        """Return whether the group that the calls are of may have been made in the recording,
        before the first of them.
        """
        first = int(calls.start.min())
        return self._longest(None, first) > 0 and not self._used_from_the_first_step_on(calls)

    def _used_from_the_first_step_on(self, calls: Calls) -> bool:
        """Whether calls come in all steps, and no longer pause before them in the first than is
        usual in others. In the step 0 that a profiler marks, a job may set itself up.
        """
        if len(self.steps) < STEPS or not self.steps[0][0]:
            return False
        begin = self.steps[0][1]
        if self._longest(None, begin) or int(calls.start.min()) < begin:
            return False
        pauses = []
        for _, start, end in self.steps:
            here = calls.start[(calls.start >= start) & (calls.start < end)]
            if not len(here):
                return False
            pauses.append(self._longest(start, int(here.min())))
        return pauses[0] <= 2 * median(pauses[1:])

    def _longest(self, since: int | None, until: int) -> int:
        """The longest pause between two moments."""
        inside = (
            min(end, until) - (start if since is None else max(start, since))
            for start, end in self.pauses
        )
        return max((pause for pause in inside if pause >= LEAST_PAUSE_NS), default=0)


def read_recordings(con: duckdb.DuckDBPyConnection, origin_ns: int) -> dict[int, Recording]:
    """Return what each source that lists groups recorded, by its number; times since an origin."""
    rows = con.execute(_RECORDINGS_SQL, {"origin": origin_ns}).fetchall()
    return {source: Recording(pauses, steps) for source, pauses, steps in rows}


_RECORDINGS_SQL = """
WITH spans AS (
    SELECT source_id, NULL AS step, start_local_ns - $origin AS start_ns, duration_ns
    FROM base.pauses
    UNION ALL
    SELECT source_id, step, start_local_ns - $origin, duration_ns FROM base.steps
)
SELECT
    source_id,
    coalesce(list([start_ns, start_ns + duration_ns] ORDER BY start_ns)
        FILTER (start_ns IS NOT NULL AND step IS NULL), []),
    coalesce(list([step, start_ns, start_ns + duration_ns] ORDER BY start_ns)
        FILTER (step IS NOT NULL), [])
FROM (SELECT DISTINCT source_id FROM base.listed_groups) LEFT JOIN spans USING (source_id)
GROUP BY source_id
"""
