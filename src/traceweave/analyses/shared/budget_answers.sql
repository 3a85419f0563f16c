-- shared: budget_answers | what the time of the mean step goes to, for the screen that health is
-- grain: one row per part of the time budget
-- column: line DOUBLE | where it stands in health
-- column: answer VARCHAR | this and the following as in health
-- column: value DOUBLE | the number
-- column: unit VARCHAR | its unit
-- column: verdict VARCHAR | what it says
-- column: proof VARCHAR | the analysis that shows the rows behind it
WITH totals AS MATERIALIZED (
    SELECT
        count(*) AS windows,
        sum(window_ns) AS window_ns,
        sum(compute_ns) AS compute_ns,
        sum(exposed_wait_ns) AS exposed_wait_ns,
        sum(exposed_transfer_ns) AS exposed_transfer_ns,
        sum(exposed_unsplit_ns) AS exposed_unsplit_ns,
        sum(exposed_memory_ns) AS exposed_memory_ns,
        sum(comm_ns) AS comm_ns,
        sum(overlap_ns) AS overlap_ns,
        CASE WHEN any_value(has_steps) THEN 'step' ELSE 'recording' END AS unit,
        any_value(has_steps) AS has_steps,
        any_value(timeline) AS timeline
    FROM {{ ref('budget') }}
    HAVING count(*) > 0
),
idle AS (
    SELECT i.cause, sum(i.idle_ns) AS idle_ns, any_value(i.timeline) AS timeline
    FROM {{ ref('idle_causes') }} AS i CROSS JOIN totals AS t
    WHERE (i.step IS NOT NULL OR NOT t.has_steps) AND i.window_ns > 0
    GROUP BY i.cause
)
SELECT 10 AS line, 'compute' AS answer, 100.0 * t.compute_ns / t.window_ns AS value, '%' AS unit,
    CASE WHEN s.source = 'host' AND t.timeline = 'gpu' THEN format('of the GPU windows, {} on average: compute runs', tw_time(t.window_ns / t.windows))
        ELSE format('of the {}: compute runs', t.unit) END AS verdict,
    'breakdown' AS proof
FROM totals AS t LEFT JOIN {{ ref('steadiness') }} AS s ON t.has_steps
UNION ALL
SELECT 11, 'exposed waiting', 100.0 * exposed_wait_ns / window_ns, '%', 'only waits for other ranks', 'exposed_comm'
FROM totals
WHERE exposed_wait_ns + exposed_transfer_ns > 0 OR exposed_unsplit_ns = 0
UNION ALL
SELECT 11.1, 'exposed transfer', 100.0 * exposed_transfer_ns / window_ns, '%', 'only transfers run', 'exposed_comm'
FROM totals
WHERE exposed_wait_ns + exposed_transfer_ns > 0 OR exposed_unsplit_ns = 0
UNION ALL
SELECT 11.2, 'exposed comm', 100.0 * exposed_unsplit_ns / window_ns, '%', 'only communication runs: waiting or transfer, not known which', 'exposed_comm'
FROM totals
WHERE exposed_unsplit_ns > 0
UNION ALL
SELECT CASE WHEN 20 * exposed_memory_ns > window_ns THEN 12 ELSE 29 END, 'exposed copies', 100.0 * exposed_memory_ns / window_ns, '%', 'only copies or memsets run', 'copies' FROM totals
UNION ALL
-- the largest first, and those of less than 5 % after all that one asks before
SELECT CASE WHEN 20 * i.idle_ns > t.window_ns THEN 13 ELSE 29 END - i.idle_ns / t.window_ns, 'idle: ' || replace(c.cause, '_', ' '), 100.0 * i.idle_ns / t.window_ns, '%',
    CASE WHEN i.timeline = 'cpu' THEN c.words_on_cpu ELSE c.words END,
    'idle_causes'
FROM idle AS i JOIN tw_gap_causes() AS c USING (cause) CROSS JOIN totals AS t
UNION ALL
SELECT 14, 'overlap', 100.0 * overlap_ns / nullif(comm_ns, 0), '%',
    CASE WHEN comm_ns = 0 THEN 'no communication runs' || CASE timeline WHEN 'gpu' THEN ' on the GPU' ELSE '' END ELSE 'of communication hides behind compute' END, 'breakdown'
FROM totals
