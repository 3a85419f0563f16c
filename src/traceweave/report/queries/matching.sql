-- How far collective calls found their partners on the other ranks, and where the clocks can tell who came last.
WITH delays AS (
    SELECT
        w.collective_id,
        min(w.wait_ns) FILTER (NOT w.is_last) AS delay_ns,
        greatest(max(coalesce(c.residual_ns, 9223372036854775807)), 1) AS resolution_ns
    FROM collective_waits AS w
    LEFT JOIN (SELECT rank, max(residual_p95_ns) AS residual_ns FROM clocks GROUP BY rank) AS c USING (rank)
    GROUP BY w.collective_id
)
SELECT k.calls, k.unmatched, i.instances, i.shared, i.decided, i.incomplete, i.uncertain
FROM (
    SELECT count(*) AS calls, count(*) FILTER (WHERE collective_id IS NULL) AS unmatched
    FROM collectives
) AS k
CROSS JOIN (
    SELECT
        count(*) AS instances,
        count(*) FILTER (WHERE i.ranks_seen >= 2) AS shared,
        count(*) FILTER (WHERE d.delay_ns >= d.resolution_ns) AS decided,
        count(*) FILTER (WHERE NOT i.complete) AS incomplete,
        count(*) FILTER (WHERE i.complete IS NULL) AS uncertain
    FROM collective_instances AS i JOIN delays AS d USING (collective_id)
) AS i
