-- GPU kernels by name and launch grid, per step; $steps: the steps that count, on the ranks that have them; NULL: the whole recording.
SELECT
    name AS item,
    args ->> '$.grid' AS shape,
    min(class) AS class,
    CASE WHEN $steps IS NOT NULL THEN step END AS step,
    CAST(count(*) AS BIGINT) AS calls,
    CAST(sum(duration_ns) AS BIGINT) AS total_ns
FROM gpu_ops
WHERE kind = 'kernel' AND ($steps IS NULL OR list_contains($steps, step) AND (rank, step) IN (SELECT (rank, step) FROM steps))
GROUP BY ALL
