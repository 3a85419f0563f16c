-- When each step begins and ends: by its device windows over all ranks, where there are any; at most 20,000 of them.
WITH known AS (
    SELECT
        step,
        min(coalesce(device_start_ns, start_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
        max(coalesce(device_end_ns, end_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS end_ns,
        bool_or(source IN ('inferred', 'module')) AS is_inferred
    FROM steps
    GROUP BY step
)
SELECT step, start_ns, end_ns, is_inferred
FROM known
QUALIFY (row_number() OVER (ORDER BY start_ns, step) - 1) % (count(*) OVER () // 20000 + 1) = 0
ORDER BY start_ns, step
