-- shared: idle_scenarios | what removing the idle time of a cause is for what-if: that of usual steps, and that of stalls
-- grain: one row per cause that a scenario can remove
-- column: cause VARCHAR | as in idle_causes
-- column: scenario VARCHAR | in all steps, while the GPU runs nothing; where some have a stall, in the others
-- column: everywhere VARCHAR | the same on all ranks, also while their GPUs run something: what they wait in for others that are late for the same reason
-- column: stall_scenario VARCHAR | in the steps with a stall; NULL where there is none, and of late launches: those of one step may be no stall
WITH kinds AS (
    SELECT i.cause, k.kind, CASE WHEN k.kind IN ('sync', 'device_delay') THEN '' ELSE ' while=idle' END AS idle, i.ranks, i.stalled_steps, i.stalled_ranks
    FROM {{ ref('idling') }} AS i
    JOIN (VALUES ('data_loading', 'data_loading'), ('launch_bound', 'launch'), ('sync', 'sync'), ('device_delay', 'device_delay'),
        ('allocator', 'allocator'), ('compilation', 'compilation'), ('module_loading', 'module_loading')) AS k(cause, kind)
        USING (cause)
),
all_steps AS (
    SELECT list(DISTINCT step ORDER BY step) FILTER (WHERE step IS NOT NULL) AS steps FROM {{ ref('budget') }}
),
usual AS (
    SELECT
        k.*,
        CASE WHEN k.stalled_steps IS NULL THEN ''
            ELSE 'step=' || array_to_string(list_filter(a.steps, lambda step: NOT list_contains(k.stalled_steps, step)), ',') || ' ' END AS steps
    FROM kinds AS k CROSS JOIN all_steps AS a
)
SELECT
    k.cause,
    coalesce('rank=' || array_to_string(k.ranks, ',') || ' ', '') || format('{}kind={}{} times=0', k.steps, k.kind, k.idle) AS scenario,
    format('{}kind={} times=0', k.steps, k.kind) AS everywhere,
    CASE WHEN k.kind <> 'launch' THEN coalesce('rank=' || array_to_string(k.stalled_ranks, ',') || ' ', '') || 'step=' || array_to_string(k.stalled_steps, ',') || format(' kind={}{} times=0', k.kind, k.idle) END AS stall_scenario
FROM usual AS k
