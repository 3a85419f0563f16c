"""What the recordings of all ranks show only beside each other, as rows of base.doubts: ranks that
started apart, that recorded different times or steps, or with different settings.
"""

from __future__ import annotations

import duckdb

EXTRAS = ("Python frames", "input shapes", "memory events")
"""What `other settings` counts, as bits."""

# steps that were left out were recorded
_RECORDED = """recorded AS (
    SELECT rank, source_id, step FROM base.steps
    UNION SELECT rank, source_id, step FROM base.doubts WHERE is_unknown AND step IS NOT NULL
)"""

# the first collective of the first step, if ranks wait in it longer than another step takes, and
# began to work as far apart: what a rank is then recorded to do is no late start, nor what it makes
# the others wait for as long in a later step
_MAY_BE_LATE = """
CREATE OR REPLACE TEMP TABLE late_steps AS
WITH firsts AS (
    SELECT min(step) AS step
    FROM (SELECT rank, arg_min(step, start_local_ns) AS step FROM base.steps GROUP BY rank)
    HAVING count(DISTINCT step) = 1
),
lengths AS (
    SELECT step, max(coalesce(device_end_local_ns - device_start_local_ns, duration_ns)) AS ns
    FROM base.steps GROUP BY step
),
usual AS (
    SELECT median(ns) AS ns
    FROM lengths WHERE step NOT IN (SELECT step FROM firsts)
    HAVING count(*) >= 2
)
SELECT s.rank, s.source_id, s.step, u.ns AS usual_ns
FROM base.steps AS s JOIN firsts USING (step) JOIN lengths AS l USING (step) CROSS JOIN usual AS u
WHERE l.ns > 2 * u.ns
"""
_LATE_START = """
INSERT INTO base.doubts BY NAME
WITH begun AS (
    SELECT max(at_ns) - min(at_ns) AS ns
    FROM (
        SELECT min(aligned_ns(s.at_ns, c.offset_ns, c.drift_ppm, c.reference_local_ns)) AS at_ns
        FROM (
            SELECT rank, coalesce(device_start_local_ns, start_local_ns) AS at_ns
            FROM base.steps SEMI JOIN late_steps USING (step)
        ) AS s
        JOIN clock_spans AS c
            ON c.rank = s.rank AND s.at_ns >= c.from_local_ns AND s.at_ns < c.until_local_ns
        GROUP BY s.rank
    )
),
waited AS (
    SELECT least(w.ns, b.ns) AS ns
    FROM (
        SELECT arrival_skew_ns AS ns, last_rank
        FROM collective_instances SEMI JOIN late_steps USING (step)
        WHERE ranks_seen > 1 AND op <> 'send_recv' AND arrival_skew_ns IS NOT NULL
        ORDER BY first_start_ns, collective_id
        LIMIT 1
    ) AS w CROSS JOIN begun AS b
    WHERE NOT EXISTS (
        SELECT 1 FROM collective_instances AS i
        WHERE i.step > (SELECT max(step) FROM late_steps) AND i.op <> 'send_recv'
            AND i.last_rank = w.last_rank AND 2 * i.arrival_skew_ns >= w.ns
    )
)
SELECT
    s.rank, s.source_id, s.step, 'late start' AS kind, w.ns AS count, w.ns AS total,
    TRUE AS is_unknown
FROM late_steps AS s CROSS JOIN waited AS w
WHERE w.ns > s.usual_ns
"""

# steps that fewer ranks recorded than make the most of steps and ranks: what a mean step is of, all
# ranks have, and what others wait for, or what is longer than theirs, is not known of one alone
_UNSHARED = f"""
INSERT INTO base.doubts BY NAME
WITH {_RECORDED},
counted AS (SELECT step, count(DISTINCT rank) AS ranks FROM recorded GROUP BY step),
most AS (
    SELECT arg_max(ranks, (ranks * steps, ranks)) AS ranks
    FROM (
        SELECT ranks, sum(count(*)) OVER (ORDER BY ranks DESC) AS steps
        FROM counted GROUP BY ranks
    )
)
SELECT
    s.rank, s.source_id, s.step, 'unshared steps' AS kind, 0 AS count, 0 AS total,
    TRUE AS is_unknown
FROM base.steps AS s JOIN counted AS c USING (step) JOIN most AS m ON c.ranks < m.ranks
WHERE s.source IN ('ProfilerStep', 'nvtx')
"""

# on the common clock, beside the middle of all starts and of all ends
_APART = """
INSERT INTO base.doubts BY NAME
WITH windows AS (
    SELECT rank, min(source_id) AS source_id, min(first_ns) AS first_ns, max(last_ns) AS last_ns
    FROM (
        SELECT
            rank, source_id,
            aligned_ns(first_local_ns, offset_ns, drift_ppm, reference_local_ns) AS first_ns,
            aligned_ns(last_local_ns, offset_ns, drift_ppm, reference_local_ns) AS last_ns
        FROM base.rank_sources JOIN clock_spans USING (rank)
        WHERE first_local_ns >= from_local_ns AND first_local_ns < until_local_ns
            AND rank IN (SELECT rank FROM clocks WHERE status IN ('aligned', 'same host'))
    )
    GROUP BY rank
),
usual AS (
    SELECT median(first_ns)::BIGINT AS first_ns, median(last_ns)::BIGINT AS last_ns
    FROM windows HAVING count(*) > 1
),
shared AS (
    SELECT
        rank, source_id, w.last_ns - w.first_ns AS total,
        greatest(least(w.last_ns, u.last_ns) - greatest(w.first_ns, u.first_ns), 0) AS count
    FROM windows AS w CROSS JOIN usual AS u
)
SELECT rank, source_id, NULL AS step, 'recorded apart' AS kind, count, total, FALSE AS is_unknown
FROM shared WHERE 2 * count < total
"""

_SETTINGS = """
INSERT INTO base.doubts BY NAME
WITH extras AS (
    SELECT
        rank,
        bool_or(kind = 'python') AS frames,
        bool_or(arguments_hash IS NOT NULL) AS shapes,
        rank IN (SELECT rank FROM base.memory_events) AS memory
    FROM base.host_ops WHERE rank IS NOT NULL
    GROUP BY rank
),
lacking AS (
    SELECT
        rank,
        CAST(NOT frames AND bool_or(frames) OVER () AS BIGINT)
        + 2 * CAST(NOT shapes AND bool_or(shapes) OVER () AS BIGINT)
        + 4 * CAST(NOT memory AND bool_or(memory) OVER () AS BIGINT) AS bits
    FROM extras
)
SELECT
    rank, min(source_id) AS source_id, NULL AS step, 'other settings' AS kind,
    any_value(bits) AS count, any_value(bits) AS total, FALSE AS is_unknown
FROM lacking JOIN base.rank_sources USING (rank)
WHERE bits > 0
GROUP BY rank
"""

_FEWER = f"""
INSERT INTO base.doubts BY NAME
WITH {_RECORDED},
counted AS (
    SELECT rank, min(source_id) AS source_id, count(DISTINCT step) AS steps
    FROM recorded
    WHERE step NOT IN (SELECT step FROM base.doubts WHERE kind = 'unshared steps')
    GROUP BY rank
)
SELECT
    rank, source_id, NULL AS step, 'fewer steps' AS kind, m.total - steps AS count, m.total,
    FALSE AS is_unknown
FROM counted CROSS JOIN (SELECT max(steps) AS total FROM counted) AS m
WHERE steps < m.total
"""

_SEVERAL = "SELECT 1 FROM base.rank_sources HAVING count(DISTINCT rank) > 1"

_BY_KIND = {
    "late start": _LATE_START,
    "unshared steps": _UNSHARED,
    "recorded apart": _APART,
    "other settings": _SETTINGS,
    "fewer steps": _FEWER,
}


def forget_beside_each_other(con: duckdb.DuckDBPyConnection) -> None:
    """Take out of base.doubts what a woven run showed."""
    con.execute("DELETE FROM base.doubts WHERE list_contains($1, kind)", [list(_BY_KIND)])


def doubt_beside_each_other(con: duckdb.DuckDBPyConnection) -> None:
    """Add what only a woven run shows to base.doubts."""
    # to plan these takes a sixteenth of the CPU time of a rank's ingest that has none beside it
    if not con.execute(_SEVERAL).fetchall():
        return
    con.execute(_MAY_BE_LATE)
    late = con.execute("SELECT 1 FROM late_steps LIMIT 1").fetchall()
    for kind, statement in _BY_KIND.items():
        if late or kind != "late start":
            con.execute(statement)
