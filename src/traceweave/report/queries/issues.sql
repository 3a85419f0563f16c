-- What the readers met, by kind: every event that was not stored is counted here.
SELECT
    kind,
    CAST(sum(count) AS BIGINT) AS events,
    count(DISTINCT source_id) AS files,
    min(message) AS message,
    min(example) AS example
FROM ingest_issues
GROUP BY kind
ORDER BY events DESC, kind
