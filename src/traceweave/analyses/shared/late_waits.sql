-- shared: late_waits | how long others waited for each rank, in each step, by followed_waits: none of stages of a pipeline, nor for whom is as late as its like
-- grain: one row per rank that others wait for, and step
-- needs: ref('followed_waits')
-- column: rank INTEGER | the rank that the waiting goes back to
-- column: step BIGINT | step in which the late rank issued the collectives
-- column: wait_ns DOUBLE | how long
SELECT origin AS rank, step, sum(wait_ns) AS wait_ns
FROM {{ ref('followed_waits') }}
WHERE step IS NOT NULL AND wait_ns > 0 AND NOT EXISTS (FROM {{ ref('exposed_calls') }} WHERE is_staged)
    AND origin NOT IN (SELECT rank FROM {{ ref('as_its_like', per='run') }})
GROUP BY origin, step
