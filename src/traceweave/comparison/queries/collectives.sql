-- Collectives by operation, size and number of ranks, per step: their time on every rank, and the part of it that the rank
-- waited for the last one. $steps: the steps that count, on the ranks that have them; NULL: the whole recording.
WITH calls AS (
    SELECT
        k.op,
        concat_ws(', ', k.bytes || ' B', g.size || ' ranks') AS shape,
        CASE WHEN $steps IS NOT NULL THEN k.step END AS step,
        k.duration_ns,
        -- least() passes over NULL: without a match no wait is known
        CASE WHEN w.wait_ns IS NOT NULL THEN greatest(least(w.wait_ns, k.duration_ns), 0) END AS wait_ns
    FROM collectives AS k
    LEFT JOIN groups AS g USING (group_id)
    LEFT JOIN collective_waits AS w ON w.collective_id = k.collective_id AND w.rank = k.rank
    WHERE $steps IS NULL OR list_contains($steps, k.step) AND (k.rank, k.step) IN (SELECT (rank, step) FROM steps)
)
SELECT op AS item, shape, 'all' AS class, step, CAST(count(*) AS BIGINT) AS calls,
    CAST(sum(duration_ns) AS BIGINT) AS total_ns
FROM calls GROUP BY ALL
UNION ALL
SELECT op, shape, 'waiting', step, CAST(count(*) AS BIGINT), CAST(sum(wait_ns) AS BIGINT)
FROM calls WHERE wait_ns IS NOT NULL GROUP BY ALL
