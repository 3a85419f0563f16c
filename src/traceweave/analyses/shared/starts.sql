-- shared: starts | the collectives with which an uneven recording began: their waiting mirrors when ranks began to record
-- grain: one row per collective
-- needs: collective_instances
-- column: collective_id BIGINT | the first of its group, and those that were under way with it, if it is 1.5 times as uneven as the worst of the other steps at the median, and as that of all but one, or, within one step, as the worst of all others; or if its step is left out
WITH placed AS (
    SELECT
        collective_id,
        group_id,
        step,
        arrival_skew_ns,
        first_start_ns < first(last_end_ns ORDER BY first_start_ns, collective_id) OVER (PARTITION BY group_id) AS is_early,
        first(arrival_skew_ns ORDER BY first_start_ns, collective_id) OVER (PARTITION BY group_id) AS first_skew_ns,
        first(step ORDER BY first_start_ns, collective_id) OVER (PARTITION BY group_id) AS first_step
    FROM collective_instances
    WHERE ranks_seen > 1 AND NOT is_buffered
),
others AS (
    SELECT group_id, step, max(arrival_skew_ns) AS skew_ns FROM placed WHERE NOT is_early GROUP BY group_id, step
),
usual AS (
    SELECT
        p.group_id,
        coalesce(
            CASE WHEN count(*) FILTER (WHERE o.step <> p.first_step) > 1 THEN greatest(
                tw_percentile(CASE WHEN o.step <> p.first_step THEN o.skew_ns END, 0.5),
                -- what comes back is no matter of the beginning
                max(CASE WHEN o.step <> p.first_step THEN o.skew_ns END, 2)[2]
            ) END,
            max(o.skew_ns), 0
        ) AS skew_ns
    FROM (SELECT DISTINCT group_id, first_step FROM placed) AS p LEFT JOIN others AS o ON o.group_id IS NOT DISTINCT FROM p.group_id
    GROUP BY p.group_id
)
SELECT p.collective_id
FROM placed AS p JOIN usual AS u ON u.group_id IS NOT DISTINCT FROM p.group_id
-- a step that was left out began so, by its record
WHERE p.is_early AND (p.first_skew_ns > 1.5 * u.skew_ns OR p.first_step NOT IN (SELECT step FROM steps))
