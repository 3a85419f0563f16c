-- shared: followed_waits | how long the others waited for each rank, and whom its lateness goes back to
-- grain: one row per missing rank, step, and rank that this goes back to
-- needs: ref('arrivals')
-- column: rank INTEGER | the rank that was waited for
-- column: step BIGINT | step in which it issued the collectives
-- column: origin INTEGER | the rank that its lateness goes back to: itself, or who held it up in another group before
-- column: wait_ns DOUBLE | how long: the time between two arrivals is shared by all who are missing
WITH
-- until the last rank arrives, at 0, one more waits, or one less is missing; for who waits for a root nobody else waits
moments AS (
    SELECT
        collective_id, rank, step,
        unnest([
            {'waits': 1, 'at_ns': -counted_ns},
            {'waits': 0, 'at_ns': CASE WHEN has_root AND NOT is_last THEN -9e18 ELSE start_ns - awaited_ns END}
        ], recursive := TRUE)
    FROM {{ ref('arrivals') }}
    WHERE counts AND NOT below_resolution
),
slices AS (
    SELECT
        *,
        -- of those who wait, each does; of those who are missing, each has its share in that
        (at_ns - lag(at_ns) OVER in_order) * (sum(waits) OVER in_order - waits)
            / nullif(sum(1 - waits) OVER (PARTITION BY collective_id) - sum(1 - waits) OVER in_order + (1 - waits), 0) AS shared_ns
    FROM moments
    WINDOW in_order AS (PARTITION BY collective_id ORDER BY at_ns, rank, waits ROWS UNBOUNDED PRECEDING)
),
owed AS (
    SELECT collective_id, rank, step, waits, sum(shared_ns) OVER (PARTITION BY collective_id ORDER BY at_ns, rank, waits ROWS UNBOUNDED PRECEDING) AS wait_ns
    FROM slices
)
SELECT w.rank, w.step, coalesce(o.origin, w.rank) AS origin, sum(coalesce(w.wait_ns, 0) * coalesce(o.share, 1)) AS wait_ns
FROM (FROM owed WHERE waits = 0) AS w LEFT JOIN {{ ref('wait_origins') }} AS o USING (collective_id, rank)
GROUP BY ALL
