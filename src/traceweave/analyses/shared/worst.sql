-- shared: worst | is it always the same rank, the same host, the same stage that others wait for?
-- grain: one row per rank
-- column: rank INTEGER | global rank
-- column: worst_steps BIGINT | this and the following as in stragglers
-- column: worst_share DOUBLE | worst_steps / steps in which any rank was last
-- column: host VARCHAR | host of the rank
-- column: host_share DOUBLE | part of the wait caused by all ranks that those of its host caused
-- column: stage VARCHAR | 'first', 'middle' or 'last' stage of its pipeline
WITH worst AS (
    SELECT rank, count(*) AS worst_steps
    FROM (
        SELECT rank, row_number() OVER (PARTITION BY step ORDER BY sum(caused_ns) DESC, rank) AS place
        FROM {{ ref('arrivals') }}
        WHERE caused_ns > 0
        GROUP BY rank, step
    )
    WHERE place = 1
    GROUP BY rank
),
hosts AS (
    SELECT r.host, CAST(sum(a.caused_ns) AS BIGINT) AS wait_ns
    FROM {{ ref('arrivals') }} AS a JOIN ranks AS r USING (rank)
    WHERE r.host IS NOT NULL
    GROUP BY r.host
),
pipelines AS (
    SELECT ranks
    FROM groups
    WHERE len(ranks) > 1 AND (
        role = 'pp'
        OR group_id IN (FROM tw_pipelines())
        AND group_id IN (SELECT group_id FROM {{ ref('arrivals') }} GROUP BY group_id HAVING bool_and(op = 'send_recv'))
    )
),
stages AS (
    SELECT rank, CASE WHEN bool_and(place = 1) THEN 'first' WHEN bool_and(place = size) THEN 'last' ELSE 'middle' END AS stage
    FROM (SELECT unnest(ranks) AS rank, unnest(range(1, len(ranks) + 1)) AS place, len(ranks) AS size FROM pipelines)
    GROUP BY rank
)
SELECT
    r.rank,
    coalesce(w.worst_steps, 0) AS worst_steps,
    tw_ratio(coalesce(w.worst_steps, 0), (SELECT CAST(sum(worst_steps) AS BIGINT) FROM worst)) AS worst_share,
    r.host,
    tw_ratio(coalesce(h.wait_ns, 0), CASE WHEN r.host IS NOT NULL THEN (SELECT CAST(sum(caused_ns) AS BIGINT) FROM {{ ref('arrivals') }}) END)
        AS host_share,
    s.stage
FROM ranks AS r
LEFT JOIN worst AS w ON w.rank = r.rank
LEFT JOIN hosts AS h ON h.host = r.host
LEFT JOIN stages AS s ON s.rank = r.rank
