-- How far collective calls found their partners on the other ranks.
SELECT
    (SELECT count(*) FROM collectives) AS calls,
    (SELECT count(*) FROM collectives WHERE collective_id IS NULL) AS unmatched,
    (SELECT count(*) FROM collective_instances) AS instances,
    (SELECT count(*) FROM collective_instances WHERE ranks_seen >= 2) AS shared,
    (SELECT count(*) FROM collective_instances WHERE ranks_seen >= 2 AND NOT below_resolution) AS decided,
    (SELECT count(*) FROM collective_instances WHERE complete IS NOT TRUE) AS incomplete
