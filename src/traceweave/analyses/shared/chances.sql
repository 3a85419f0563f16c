-- shared: chances | could it be chance that a rank makes others wait as often and as long as it does?
-- grain: one row per rank that takes part in collectives whose last rank the clocks resolve
-- column: rank INTEGER | global rank
-- column: chance DOUBLE | as in stragglers
WITH
-- What ranks made others wait, by step; in a run of one by stretch since they were even: collectives of either hang together.
trials AS (
    SELECT
        a.rank,
        CASE WHEN s.several THEN a.step ELSE t.first_id END AS trial,
        CAST(coalesce(sum(a.caused_ns), 0) AS BIGINT) AS wait_ns
    FROM {{ ref('arrivals') }} AS a
    -- a rank that was not there yet when a stretch began takes part in that of the others
    JOIN (SELECT collective_id, coalesce(max(first_id), collective_id) AS first_id FROM {{ ref('legs') }} GROUP BY collective_id) AS t USING (collective_id)
    CROSS JOIN (SELECT count(DISTINCT step) FILTER (WHERE last_is_known) > 1 AS several FROM {{ ref('arrivals') }}) AS s
    WHERE a.last_is_known AND (a.step IS NOT NULL OR NOT s.several)
    GROUP BY ALL
)
SELECT CAST(unnest(drawn.rank) AS INTEGER) AS rank, unnest(drawn.chance) AS chance
FROM (SELECT sweep_chances(list(trial), list(rank), list(wait_ns)) AS drawn FROM trials HAVING count(*) > 0)
