-- shared: begun_causes | why ranks are late, step by step: who waited in another group is so for what those do that it waited for
-- grain: any number of rows per rank, step and cause
-- needs: ref('stragglers')
-- column: rank INTEGER | the late rank, or the one that its lateness goes back to
-- column: step BIGINT | step of the rank that others wait for
-- column: cause VARCHAR | as in stragglers; of whom waited in another group too, what it does longer beside that
-- column: wait_ns DOUBLE | resolved_wait_ns of stragglers, or its part that goes back to this rank
SELECT
    coalesce(f.origin, s.rank) AS rank, s.step,
    CASE WHEN s.cause = 'other_group' THEN coalesce(c.begun_cause, s.cause) ELSE s.cause END AS cause,
    s.resolved_wait_ns * coalesce(f.wait_ns / sum(f.wait_ns) OVER (PARTITION BY s.rank, s.step), 1) AS wait_ns
FROM {{ ref('stragglers', per='step') }} AS s
LEFT JOIN {{ ref('followed_waits') }} AS f ON f.rank = s.rank AND f.step IS NOT DISTINCT FROM s.step AND s.cause = 'other_group' AND f.wait_ns > 0
LEFT JOIN {{ ref('late_causes', per='step') }} AS c ON c.rank = coalesce(f.origin, s.rank) AND c.step IS NOT DISTINCT FROM s.step
