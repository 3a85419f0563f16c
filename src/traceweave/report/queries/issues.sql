-- What the readers met, by kind: every event that was read and not stored is counted here; NULL where how many is not known.
SELECT
    kind,
    CASE WHEN bool_and(count IS NOT NULL) THEN CAST(sum(count) AS BIGINT) END AS events,
    count(DISTINCT source_id) AS files,
    min(message) AS message,
    min(example) AS example
FROM ingest_issues
GROUP BY kind
ORDER BY events DESC NULLS LAST, kind
