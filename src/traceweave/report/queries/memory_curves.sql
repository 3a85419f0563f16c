-- Memory over time in 400 stretches of the recording, per stretch the most that was allocated and reserved, for the
-- ranks and devices of `shown_memory`, rows of `traceweave analyze memory run.duckdb`.
WITH counted AS (
    SELECT
        e.rank,
        coalesce(e.device, '') AS device,
        e.at_ns,
        coalesce(
            e.total_allocated_bytes,
            CAST(sum(e.value) OVER (PARTITION BY e.rank, e.device ORDER BY e.at_ns, e.op_id ROWS UNBOUNDED PRECEDING) AS BIGINT)
        ) AS allocated_bytes,
        nullif(e.total_reserved_bytes, 0) AS reserved_bytes
    FROM memory_events AS e
    JOIN shown_memory AS s ON s.rank = e.rank AND s.device IS NOT DISTINCT FROM e.device
    WHERE e.value IS NOT NULL
),
ends AS (
    SELECT min(at_ns) AS from_ns, greatest((max(at_ns) - min(at_ns)) // 400, 1) AS stretch_ns FROM counted
)
SELECT
    c.rank,
    c.device,
    (c.at_ns - e.from_ns) // e.stretch_ns * e.stretch_ns AS at_ns,
    max(c.allocated_bytes) AS allocated_bytes,
    max(c.reserved_bytes) AS reserved_bytes
FROM counted AS c CROSS JOIN ends AS e
GROUP BY ALL
ORDER BY c.rank, c.device, at_ns
