-- How far collective calls found their partners on the other ranks.
SELECT k.calls, k.unmatched, i.instances, i.shared, i.decided, i.incomplete
FROM (
    SELECT count(*) AS calls, count(*) FILTER (WHERE collective_id IS NULL) AS unmatched
    FROM collectives
) AS k
CROSS JOIN (
    SELECT
        count(*) AS instances,
        count(*) FILTER (WHERE ranks_seen >= 2) AS shared,
        count(*) FILTER (WHERE ranks_seen >= 2 AND NOT below_resolution) AS decided,
        count(*) FILTER (WHERE complete IS NOT TRUE) AS incomplete
    FROM collective_instances
) AS i
