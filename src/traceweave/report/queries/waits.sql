-- Per rank, over collectives seen on at least two ranks: how long it waited for others, and others for it. Who came last
-- can be told where it was later than the last but one by what the clocks of the ranks that took part can tell.
WITH delays AS (
    SELECT
        w.collective_id,
        min(w.wait_ns) FILTER (NOT w.is_last) AS delay_ns,
        greatest(max(coalesce(c.residual_ns, 9223372036854775807)), 1) AS resolution_ns
    FROM collective_waits AS w
    LEFT JOIN (SELECT rank, max(residual_p95_ns) AS residual_ns FROM clocks GROUP BY rank) AS c USING (rank)
    GROUP BY w.collective_id
)
SELECT
    w.rank,
    count(*) AS instances,
    count(*) FILTER (d.delay_ns >= d.resolution_ns) AS decided,
    count(*) FILTER (w.is_last AND d.delay_ns >= d.resolution_ns) AS times_last,
    CAST(coalesce(sum(i.wait_total_ns) FILTER (w.is_last AND d.delay_ns >= d.resolution_ns), 0) AS BIGINT)
        AS caused_ns,
    CAST(coalesce(sum(w.wait_ns) FILTER (NOT i.below_resolution), 0) AS BIGINT) AS waited_ns,
    CAST(sum(w.wait_free_ns) AS BIGINT) AS waited_clock_free_ns,
    CAST(sum(w.duration_ns) AS BIGINT) AS duration_ns
FROM collective_waits AS w
JOIN collective_instances AS i USING (collective_id)
JOIN delays AS d USING (collective_id)
WHERE i.ranks_seen >= 2
GROUP BY w.rank
ORDER BY w.rank
