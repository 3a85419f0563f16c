-- The longest step, by its device windows over all ranks where there are any.
SELECT
    NULL AS rank,
    min(coalesce(device_start_ns, start_ns)) - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    max(coalesce(device_end_ns, end_ns)) - min(coalesce(device_start_ns, start_ns)) AS duration_ns
FROM steps
GROUP BY step
ORDER BY duration_ns DESC, start_ns
LIMIT 1
