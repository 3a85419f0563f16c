-- rule: lost_events | events that could not be read
-- topic: what costs no time
-- finds: Files that were read in part or not at all.
-- proof: steps
WITH incomplete AS (
    SELECT
        count(*) AS files,
        count(*) FILTER (status <> 'ok') AS damaged,
        count(*) FILTER (source_id IN (SELECT source_id FROM ingest_issues WHERE count IS NULL)) AS uncounted,
        CAST(sum(events_skipped) FILTER (status <> 'ok') AS BIGINT) AS events
    FROM sources
)
SELECT
    format('{} of {} could not be read in full', damaged, tw_many(files, 'file')) AS title,
    'warning' AS severity,
    format('{} of {} read in part or not at all; ', damaged, tw_many(files, 'file'))
    || CASE
        WHEN uncounted = 0 THEN format('{} not here', CASE WHEN events = 1 THEN '1 event is' ELSE tw_many(events, 'event') || ' are' END)
        ELSE 'how many events are missing is not known'
    END AS evidence,
    'See traceweave info for what was lost; record again' AS advice
FROM incomplete
WHERE damaged > 0
