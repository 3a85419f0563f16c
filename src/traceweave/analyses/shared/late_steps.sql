-- shared: late_steps | how long ranks waited for each late rank without compute, step by step
-- grain: one row per late rank and step of the ranks that wait
-- needs: ref('exposed_calls')
-- column: rank INTEGER | the late rank
-- column: step BIGINT | the step in which others wait for it
-- column: late_ns BIGINT | what it alone was late, summed over those who wait; stages of a pipeline and the beginning of the recording apart
-- column: since_step BIGINT | the step in which it last met those who wait before that: what it does from there on makes it late; NULL: not recorded
-- column: is_most BOOLEAN | it is at least 80 % of what the rank is late in all, of three steps at least, and came about in this step or the one before: what happens in every step varies by less
WITH late AS (
    SELECT e.late_rank AS rank, e.step, CAST(sum(e.late_ns) AS BIGINT) AS late_ns, arg_max(p.step, e.late_ns) AS since_step
    FROM {{ ref('exposed_calls') }} AS e
    LEFT JOIN {{ ref('legs') }} AS l ON l.collective_id = e.collective_id AND l.rank = e.late_rank
    LEFT JOIN {{ ref('legs') }} AS p ON p.collective_id = l.previous_id AND p.rank = l.rank
    WHERE e.late_rank IS NOT NULL AND e.step IS NOT NULL AND NOT e.is_staged AND NOT e.is_start
    GROUP BY e.late_rank, e.step
)
SELECT
    l.rank,
    l.step,
    l.late_ns,
    l.since_step,
    5 * l.late_ns >= 4 * sum(l.late_ns) OVER (PARTITION BY l.rank) AND l.late_ns > 0 AND coalesce(l.since_step >= l.step - 1, TRUE) AND s.steps >= 3 AS is_most
FROM late AS l CROSS JOIN {{ ref('steadiness') }} AS s
