-- shared: idle_ranges | in which range of its host a rank idles longer than the others, where no cause is known
-- grain: one row per rank, and per rank and step, in which one range covers at least half of what it idles longer; step is NULL for all steps
-- reads: clock_spans, device_ops, gpu_ops, host_ops, other_events, ranks, steps
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: all steps
-- column: host_op VARCHAR | the range, which is not that of a step
-- column: more_ns DOUBLE | how much longer than the mean of the other ranks it idles in it
WITH idle AS (
    SELECT rank, step, host_op, idle_ns, host_op_ns FROM analysis_idle_causes() WHERE cause = 'unknown'
),
spans AS (
    FROM idle
    UNION ALL
    SELECT rank, NULL, host_op, sum(idle_ns), sum(host_op_ns) FROM idle WHERE step IS NOT NULL GROUP BY rank, host_op
)
SELECT rank, step, host_op, CAST(more_ns AS DOUBLE) AS more_ns
FROM (
    SELECT
        rank,
        step,
        host_op,
        host_op_ns - (same_ns - host_op_ns) / others AS more_ns,
        rank_ns - (all_ns - rank_ns) / others AS idle_more_ns
    FROM (
        SELECT
            *,
            sum(host_op_ns) OVER (PARTITION BY step, host_op) AS same_ns,
            sum(idle_ns) OVER (PARTITION BY rank, step) AS rank_ns,
            sum(idle_ns) OVER (PARTITION BY step) AS all_ns
        FROM spans
    )
    CROSS JOIN (SELECT nullif(count(*) - 1, 0) AS others FROM ranks)
)
WHERE more_ns > 0 AND 2 * more_ns >= idle_more_ns AND NOT starts_with(host_op, 'ProfilerStep')
