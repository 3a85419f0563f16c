-- rule: lost_events | events that could not be read
-- topic: what costs no time
-- finds: Files that were read in part or not at all.
-- proof: steps
-- reads: sources
SELECT
    'warning' AS severity,
    format('{} of {} read in part or not at all; {} events are not here',
        count(*) FILTER (WHERE status <> 'ok'), tw_many(count(*), 'file'), CAST(sum(events_skipped) FILTER (WHERE status <> 'ok') AS BIGINT)) AS evidence,
    'See traceweave info for what was lost; record again' AS advice
FROM sources
HAVING count(*) FILTER (WHERE status <> 'ok') > 0
