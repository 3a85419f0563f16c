-- shared: pipeline_links | which rank sends activations to which: of two, the one that sends first in most steps is the earlier stage
-- grain: one row per pair of neighbouring stages
-- needs: ref('pipeline_messages')
-- column: from_rank INTEGER | the earlier stage
-- column: to_rank INTEGER | the later one
WITH
-- both sides of a message speak of it
spoken AS (
    SELECT step, rank AS from_rank, peer AS to_rank, start_ns FROM {{ ref('pipeline_messages') }} WHERE op = 'send' AND peer IS NOT NULL
    UNION ALL
    SELECT step, peer AS from_rank, rank AS to_rank, end_ns AS start_ns FROM {{ ref('pipeline_messages') }} WHERE op = 'recv' AND peer IS NOT NULL
),
firsts AS (
    SELECT step, from_rank, to_rank, min(start_ns) AS first_ns FROM spoken GROUP BY step, from_rank, to_rank
),
votes AS (
    SELECT
        a.from_rank,
        a.to_rank,
        sum(CASE WHEN b.first_ns IS NULL OR a.first_ns < b.first_ns THEN 1 ELSE -1 END) AS balance
    FROM firsts AS a
    LEFT JOIN firsts AS b ON b.step IS NOT DISTINCT FROM a.step AND b.from_rank = a.to_rank AND b.to_rank = a.from_rank
    GROUP BY a.from_rank, a.to_rank
)
SELECT from_rank, to_rank FROM votes WHERE balance > 0
