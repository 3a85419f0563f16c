-- rule: host_pauses | pauses of the host
-- topic: idling and copies
-- finds: Without a GPU, in more than half of three steps or more, more than half of the ranks run no operator for a stretch of `stall_share` of the mean step or more; the longest that as many have is the bound. Waiting for data and for other ranks have rules of their own, and so have pauses of few steps or few ranks.
-- try: What runs outside operators: loading and preparing data, logging, waiting. Stacks (with_stack=True) or ranges (record_function) tell.
-- proof: gaps
-- shows: gaps unknown
-- param: stall_share
WITH pauses AS (
    -- what more than half of the steps have at least
    SELECT i.rank, list(i.longest_ns ORDER BY i.longest_ns DESC)[any_value(t.steps) // 2 + 1] AS pause_ns
    FROM {{ ref('idle_causes') }} AS i CROSS JOIN {{ ref('steadiness') }} AS t
    WHERE i.timeline = 'cpu' AND i.cause = 'unknown' AND i.step IS NOT NULL AND t.steps > 2
    GROUP BY i.rank
),
-- and more than half of the ranks
most AS (
    SELECT CAST(list(p.pause_ns ORDER BY p.pause_ns DESC NULLS LAST)[any_value(s.ranks) // 2 + 1] AS DOUBLE) AS pause_ns
    FROM pauses AS p CROSS JOIN {{ ref('mean_step') }} AS s
),
-- what hosts are in then, in most steps
marked AS (
    SELECT arg_max(host_op, share) AS host_op, max(share) AS share
    FROM (
        SELECT host_op, sum(host_op_ns) / sum(sum(idle_ns)) OVER () AS share
        FROM {{ ref('idle_causes') }} WHERE timeline = 'cpu' AND cause = 'unknown' AND step IS NOT NULL
        GROUP BY host_op
        QUALIFY 2 * count(DISTINCT step) > (SELECT steps FROM {{ ref('steadiness') }})
    )
)
SELECT
    format('{} {} in most {}s: no operator runs', CASE WHEN s.ranks = 1 THEN 'The host pauses' ELSE 'Hosts pause' END, tw_time(m.pause_ns), s.unit) AS title,
    m.pause_ns AS cost_ns,
    'kind=launch times=0' AS ceiling,
    format('In most {}s most hosts run no operator for {} at a stretch', s.unit, tw_time(m.pause_ns))
    || coalesce(format('. For {} of such time they are in ''{}''', tw_percent(k.share), tw_shortened(k.host_op)), '') AS evidence,
    CASE WHEN k.share > 0.5 THEN format('See what hosts do in ''{}'': gaps, ranges. Mark its parts (record_function, NVTX)', tw_shortened(k.host_op))
        ELSE 'See gaps for the operators before and after it. Python may load data, log, or wait for a core there: record with_stack=True, or mark its parts (record_function)' END AS advice
FROM most AS m CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN marked AS k
WHERE m.pause_ns >= {{ param('stall_share') }} * s.step_ns
