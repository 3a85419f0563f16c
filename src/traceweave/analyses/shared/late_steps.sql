-- shared: late_steps | how long ranks waited for each late rank without compute, step by step
-- grain: one row per late rank and step of the ranks that wait
-- needs: ref('exposed_calls')
-- column: rank INTEGER | the late rank
-- column: step BIGINT | the step in which others wait for it
-- column: late_ns BIGINT | what it alone was late, summed over those who wait; stages of a pipeline and the beginning of the recording apart
-- column: is_most BOOLEAN | it is at least 80 % of what the rank is late in all, of three steps at least: what happens in every step varies by less
WITH late AS (
    SELECT late_rank AS rank, step, CAST(sum(late_ns) AS BIGINT) AS late_ns
    FROM {{ ref('exposed_calls') }}
    WHERE late_rank IS NOT NULL AND step IS NOT NULL AND NOT is_staged AND NOT is_start
    GROUP BY late_rank, step
)
SELECT
    l.rank,
    l.step,
    l.late_ns,
    5 * l.late_ns >= 4 * sum(l.late_ns) OVER (PARTITION BY l.rank) AND l.late_ns > 0 AND s.steps >= 3 AS is_most
FROM late AS l CROSS JOIN {{ ref('steadiness') }} AS s
