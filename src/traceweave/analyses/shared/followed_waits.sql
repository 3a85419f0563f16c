-- shared: followed_waits | how long the others waited for each rank, and whom its lateness goes back to
-- grain: one row per missing rank, step, and rank that this goes back to
-- needs: ref('arrivals')
-- column: rank INTEGER | the rank that was waited for
-- column: step BIGINT | step in which it issued the collectives
-- column: origin INTEGER | the rank that its lateness goes back to: itself, or who held it up in another group before
-- column: wait_ns DOUBLE | how long: the time between two arrivals is shared by all who are missing
WITH slices AS (
    SELECT
        collective_id,
        rank,
        step,
        row_number() OVER by_arrival AS place,
        -- of those who are there, each waits; of those who are not, each has its share in that
        coalesce(start_ns - lag(start_ns) OVER by_arrival, 0) * (place - 1) / (count(*) OVER (PARTITION BY collective_id) - place + 1) AS shared_ns
    FROM {{ ref('arrivals') }}
    WHERE NOT below_resolution
    WINDOW by_arrival AS (PARTITION BY collective_id ORDER BY start_ns, rank)
),
owed AS (
    SELECT collective_id, rank, step, sum(shared_ns) OVER (PARTITION BY collective_id ORDER BY place) AS wait_ns
    FROM slices
)
SELECT w.rank, w.step, coalesce(o.origin, w.rank) AS origin, sum(w.wait_ns * coalesce(o.share, 1)) AS wait_ns
FROM owed AS w LEFT JOIN {{ ref('wait_origins') }} AS o USING (collective_id, rank)
GROUP BY ALL
