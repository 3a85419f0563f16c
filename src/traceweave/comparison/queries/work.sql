-- What the run computes and communicates, by name: time of compute, calls of operators and of collectives; $steps: the steps
-- that count, NULL: the whole recording.
SELECT 'compute' AS sort, name, CAST(sum(duration_ns) AS DOUBLE) AS amount
FROM device_ops
WHERE category = 'compute' AND ($steps IS NULL OR list_contains($steps, step))
GROUP BY name
UNION ALL
SELECT 'operators', name, CAST(count(*) AS DOUBLE)
FROM host_ops
WHERE kind = 'op' AND ($steps IS NULL OR list_contains($steps, step))
GROUP BY name
UNION ALL
SELECT 'collectives', op, CAST(count(*) AS DOUBLE)
FROM collectives
WHERE $steps IS NULL OR list_contains($steps, step)
GROUP BY op
ORDER BY sort, name
