-- shared: as_its_like | ranks that come late because of what those like them have to do too, or because they wait for others
-- grain: one row per such rank, or rank and step
-- param: per VARCHAR = 'run' | what one row covers
-- choice: per 'run' | the whole run; step is NULL
-- choice: per 'step' | one step of the rank; step is NULL for what it did outside any step
-- param: min_share
-- column: rank INTEGER | global rank: what it does itself longer than those who wait is compute, but no longer than its like (beside_its_like), to min_share of the step
-- column: step BIGINT | step of the rank; NULL: all of them
-- column: ended_late BOOLEAN | most of its lateness is late_end
SELECT c.rank, c.step, c.is_end AS ended_late
FROM {{ ref('late_causes') }} AS c CROSS JOIN {{ ref('mean_step') }} AS s
JOIN (
    SELECT rank, CASE WHEN {{ param('per') }} = 'step' THEN step END AS at_step, avg(CASE WHEN at_step IS NULL THEN more_ns ELSE late_ns END) AS more_ns
    -- what it does at the end of a step, others wait for in the next
    FROM (SELECT *, greatest(more_ns, lag(more_ns) OVER (PARTITION BY rank ORDER BY step)) AS late_ns FROM {{ ref('beside_its_like') }})
    GROUP BY rank, at_step
) AS k ON k.rank = c.rank AND k.at_step IS NOT DISTINCT FROM c.step
WHERE c.own_cause IN ('compute', 'other_group') AND k.more_ns < {{ param('min_share') }} * s.step_ns
