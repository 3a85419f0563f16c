-- analysis: files | what became of every input file
-- answers: Which files is this run made of, and how many of their events are in the database?
-- topic: overview
-- grain: one row per input file
-- column: path VARCHAR | file as given to ingest
-- column: format VARCHAR | 'kineto', 'nsys', 'capture', 'flight_recorder', 'nccl_log' or 'nccl_inspector'
-- column: status VARCHAR | 'ok', 'partial' (something was lost) or 'failed' (nothing could be read)
-- column: events_read BIGINT | events found in the file
-- column: events_stored BIGINT | events whose content is in the database
-- column: events_skipped BIGINT | events that are not; NULL: not known, as the file could not be read to its end
-- column: size_bytes BIGINT | size of the file
-- column: producer VARCHAR | what wrote it
-- column: producer_version VARCHAR | version of that
-- column: message VARCHAR | what was wrong; NULL if nothing
-- column: source_id INTEGER | as in sources
-- order: source_id
-- caveat: issues has what the events that were not stored lack.
SELECT
    path,
    format,
    status,
    events_read,
    events_stored,
    CASE WHEN source_id NOT IN (SELECT source_id FROM ingest_issues WHERE count IS NULL AND source_id IS NOT NULL) THEN events_skipped END AS events_skipped,
    size_bytes,
    producer,
    producer_version,
    message,
    source_id
FROM sources
ORDER BY source_id
