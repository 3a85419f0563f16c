-- analysis: issues | what was lost or odd while the files were read
-- answers: Was anything lost or odd at ingest, how much, and in which files?
-- topic: overview
-- grain: one row per kind of problem and message
-- needs: ingest_issues
-- column: kind VARCHAR | short stable name of the trouble
-- column: events BIGINT | how many events it concerns, over all files; 0: none in particular; NULL: not known, as of what lies beyond a cut
-- column: files BIGINT | files that have it; 0 if it concerns the run
-- column: message VARCHAR | what it means and what was done
-- column: example VARCHAR | one of these events
-- column: path VARCHAR | the first of the files; NULL if it concerns the run
-- order: events DESC NULLS LAST, kind, message, path
-- caveat: every event that was not stored is counted here, but not all that is counted was lost: the message says what was done; files has events_skipped.
SELECT
    i.kind,
    CASE WHEN bool_and(i.count IS NOT NULL) THEN CAST(sum(i.count) AS BIGINT) END AS events,
    count(DISTINCT i.source_id) AS files,
    i.message,
    min(i.example) AS example,
    arg_min(s.path, i.source_id) AS path
FROM ingest_issues AS i LEFT JOIN sources AS s USING (source_id)
GROUP BY i.kind, i.message
ORDER BY events DESC NULLS LAST, i.kind, i.message, path
