-- Device gaps by cause; `gaps` holds the rows of `traceweave analyze gaps run.duckdb`.
SELECT
    cause,
    count(*) AS gaps,
    CAST(sum(duration_ns) AS BIGINT) AS total_ns,
    CAST(median(duration_ns) AS BIGINT) AS median_ns,
    max(duration_ns) AS longest_ns
FROM gaps
WHERE stream IS NULL
GROUP BY cause
ORDER BY total_ns DESC, cause
