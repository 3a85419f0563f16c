-- How far collective calls found their partners on the other ranks, and where the clocks can tell who came last.
SELECT k.calls, k.unmatched, i.instances, i.shared, i.decided, i.incomplete, i.uncertain
FROM (
    SELECT count(*) AS calls, count(*) FILTER (WHERE collective_id IS NULL) AS unmatched
    FROM collectives
) AS k
CROSS JOIN (
    SELECT
        count(*) AS instances,
        count(*) FILTER (WHERE ranks_seen >= 2) AS shared,
        count(*) FILTER (WHERE last_is_known) AS decided,
        count(*) FILTER (WHERE NOT complete) AS incomplete,
        count(*) FILTER (WHERE complete IS NULL) AS uncertain
    FROM collective_instances
) AS i
