-- Every input file: events_read = events_stored + events_skipped.
SELECT
    source_id,
    path,
    format,
    concat_ws(' ', producer, producer_version) AS producer,
    size_bytes,
    events_read,
    events_stored,
    events_skipped,
    status,
    message
FROM sources
ORDER BY source_id
