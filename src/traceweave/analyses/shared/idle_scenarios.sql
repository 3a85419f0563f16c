-- shared: idle_scenarios | what removing the idle time of a cause is for what-if: that of usual steps, and that of stalls
-- grain: one row per cause that a scenario can remove
-- column: cause VARCHAR | as in idle_causes
-- column: scenario VARCHAR | in all steps; where some have a stall, in the others
-- column: everywhere VARCHAR | the same on all ranks
-- column: stall_scenario VARCHAR | in the steps with a stall; NULL where there is none, and of late launches: those of one step may be no stall
WITH kinds AS (
    SELECT i.cause, k.kind, CASE WHEN k.kind IN ('sync', 'device_delay') THEN '' ELSE ' while=idle' END AS idle, i.ranks, i.stalled_steps
    FROM shared_idling() AS i
    JOIN (VALUES ('data_loading', 'data_loading'), ('launch_bound', 'launch'), ('sync', 'sync'), ('device_delay', 'device_delay'),
        ('allocator', 'allocator'), ('compilation', 'compilation'), ('module_loading', 'module_loading')) AS k(cause, kind)
        USING (cause)
),
all_steps AS (
    SELECT list(DISTINCT step ORDER BY step) FILTER (WHERE step IS NOT NULL) AS steps FROM shared_budget()
),
usual AS (
    SELECT
        k.*,
        CASE WHEN k.stalled_steps IS NULL THEN ''
            ELSE 'step=' || array_to_string(list_filter(a.steps, lambda step: NOT list_contains(k.stalled_steps, step)), ',') || ' ' END
        || format('kind={}{} times=0', k.kind, k.idle) AS everywhere
    FROM kinds AS k CROSS JOIN all_steps AS a
)
SELECT
    k.cause,
    coalesce('rank=' || array_to_string(k.ranks, ',') || ' ', '') || k.everywhere AS scenario,
    k.everywhere,
    CASE WHEN k.kind <> 'launch' THEN 'step=' || array_to_string(k.stalled_steps, ',') || format(' kind={}{} times=0', k.kind, k.idle) END AS stall_scenario
FROM usual AS k
