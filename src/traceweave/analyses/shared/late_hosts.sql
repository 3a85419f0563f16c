-- shared: late_hosts | waiting for hosts that launch late by turns, where it is at least half of the waiting for late ranks
-- grain: one row; none where it is one host, or less than min_share of the step
-- needs: ref('exposure')
-- param: min_share
-- column: ranks INTEGER[] | the late ranks
-- column: worst INTEGER | the one that others wait for most
-- column: is_mostly_worst BOOLEAN | for more than half
-- column: wait_ns DOUBLE | waiting for them in the mean step, mean over the ranks
WITH late AS (
    SELECT
        sum(late_ns) AS all_ns,
        list(rank ORDER BY rank) FILTER (is_launch) AS ranks,
        sum(late_ns) FILTER (is_launch) AS late_ns,
        max(late_ns) FILTER (is_launch) AS worst_ns,
        arg_max(rank, late_ns) FILTER (is_launch) AS worst
    FROM (SELECT *, coalesce(cause = 'host_bound' AND cause_detail = 'launch_bound', FALSE) AS is_launch FROM {{ ref('blame') }})
)
SELECT l.ranks, l.worst, 2 * l.worst_ns > l.late_ns AS is_mostly_worst, e.wait_ns * l.late_ns / l.all_ns AS wait_ns
FROM late AS l CROSS JOIN {{ ref('exposure') }} AS e CROSS JOIN {{ ref('mean_step') }} AS s
-- one late host is a straggler: it does not say that launching is slow
WHERE l.late_ns > 0 AND 2 * l.late_ns >= l.all_ns AND 10 * (l.late_ns - l.worst_ns) >= l.late_ns
    AND e.wait_ns * l.late_ns / l.all_ns >= {{ param('min_share') }} * s.step_ns
    AND EXISTS (FROM {{ ref('idling') }} WHERE cause = 'launch_bound')
