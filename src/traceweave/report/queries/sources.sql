-- Every input file: events_read = events_stored + events_skipped. How much is missing of a file that could not be read to
-- its end is not known: its events_skipped is NULL here.
WITH cut_short AS (
    SELECT source_id FROM ingest_issues WHERE count IS NULL AND source_id IS NOT NULL
)
SELECT
    source_id,
    path,
    format,
    concat_ws(' ', producer, producer_version) AS producer,
    size_bytes,
    events_read,
    events_stored,
    CASE WHEN source_id NOT IN (FROM cut_short) THEN events_skipped END AS events_skipped,
    status,
    message
FROM sources
ORDER BY source_id
