-- The windows of time that the device timeline is measured in, each on its rank's own clock.

-- macro: tw_windows(kind) | one row per rank and step ('device', 'host') or per rank ('span', and ranks without steps): rank, timeline, step, start_ns and end_ns on the rank's own clock, note
-- reads: device_ops, steps
CREATE TEMP MACRO IF NOT EXISTS tw_windows(kind) AS TABLE
WITH spans AS (
    SELECT rank, min(timeline) AS timeline, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM tw_own_ops()
    GROUP BY rank
),
stepped AS (
    SELECT
        spans.rank,
        spans.timeline,
        steps.step,
        -- a rank without a GPU has no device windows: its step ranges on the host are the best there is
        CASE WHEN kind = 'device' AND timeline = 'gpu' THEN steps.device_start_local_ns ELSE steps.start_local_ns END AS start_ns,
        CASE WHEN kind = 'device' AND timeline = 'gpu' THEN steps.device_end_local_ns
            ELSE steps.start_local_ns + steps.duration_ns END AS end_ns,
        CASE WHEN kind = 'device' AND timeline = 'cpu' THEN 'host window: no GPU ops' END AS note
    FROM spans JOIN steps USING (rank)
    WHERE kind <> 'span'
),
known AS (
    SELECT * FROM stepped WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL
)
SELECT rank, timeline, step, start_ns, end_ns, note FROM known
UNION ALL
SELECT
    rank,
    timeline,
    NULL AS step,
    start_ns,
    end_ns,
    CASE WHEN kind <> 'span' THEN 'no steps recorded: window is the span of the rank' END AS note
FROM spans
WHERE rank NOT IN (SELECT rank FROM known);
