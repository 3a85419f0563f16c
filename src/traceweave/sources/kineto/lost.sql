-- Events that no statement stored, by file and kind: (source_id, kind, count, example).
WITH correlations AS (
    SELECT source_of(op_id) AS source_id, correlation FROM new_gpu_ops
    UNION ALL SELECT source_of(op_id) AS source_id, correlation FROM new_host_ops
),
lost AS (
    SELECT lane AS kind, op_id, ph, cat, name FROM events
    WHERE lane IN ('no phase', 'no usable timestamp', 'no usable duration', 'negative duration')
    UNION ALL
    SELECT 'unpaired B/E', op_id, ph, cat, name FROM events
    WHERE lane = 'mark' AND op_id NOT IN (SELECT op_id FROM paired_spans UNION ALL SELECT end_op_id FROM paired_spans)
    UNION ALL
    -- A launch arrow says nothing that its op does not: its id is the correlation of the call or GPU op it touches.
    SELECT 'unpaired arrow', e.op_id, e.ph, e.cat, e.name
    FROM (FROM events WHERE lane = 'launch arrow') AS e
    ANTI JOIN correlations AS c ON e.source_id = c.source_id AND TRY_CAST(e.id AS BIGINT) = c.correlation
    UNION ALL
    SELECT 'unpaired arrow', e.op_id, e.ph, e.cat, e.name FROM events AS e
    WHERE e.lane = 'arrow' AND e.op_id NOT IN (SELECT event_id FROM paired_arrow_ends)
)
SELECT
    source_of(op_id) AS source_id, kind, count(*) AS count,
    any_value(concat_ws(' ', 'event', op_id % 1000000000, ph, cat, name)) AS example
FROM lost
GROUP BY ALL
ORDER BY ALL;
