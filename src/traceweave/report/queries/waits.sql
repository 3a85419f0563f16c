-- Per rank, over collectives seen on at least two ranks: how long it waited for others, and others for it.
SELECT
    w.rank,
    count(*) AS instances,
    count(*) FILTER (NOT i.below_resolution) AS decided,
    count(*) FILTER (w.is_last AND NOT i.below_resolution) AS times_last,
    CAST(coalesce(sum(i.wait_total_ns) FILTER (w.is_last AND NOT i.below_resolution), 0) AS BIGINT)
        AS caused_ns,
    CAST(coalesce(sum(w.wait_ns) FILTER (NOT i.below_resolution), 0) AS BIGINT) AS waited_ns,
    CAST(sum(w.wait_free_ns) AS BIGINT) AS waited_clock_free_ns,
    CAST(sum(w.duration_ns) AS BIGINT) AS duration_ns
FROM collective_waits AS w JOIN collective_instances AS i USING (collective_id)
WHERE i.ranks_seen >= 2
GROUP BY w.rank
ORDER BY w.rank
