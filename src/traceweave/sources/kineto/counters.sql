-- Counters -> base.counters, one row per series and sample. Input: events.

INSERT INTO base.counters BY NAME
SELECT
    rank, op_id, source_id,
    pid AS device,
    CASE WHEN len(json_keys(args)) = 1 THEN name ELSE concat_ws('.', name, series.key) END AS name,
    start_ns AS at_local_ns,
    TRY_CAST(series.atom AS DOUBLE) AS value
FROM events, json_each(args) AS series
WHERE lane = 'counter';
