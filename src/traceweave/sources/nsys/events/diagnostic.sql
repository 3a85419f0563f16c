-- What nsys says about its own recording.
INSERT INTO base.other_events BY NAME
SELECT
    rank,
    op_id,
    source_id,
    'i' AS phase,
    'diagnostic' AS category,
    text AS name,
    pid::VARCHAR AS pid,
    start_local_ns,
    nsys_args(concat_ws(',',
        nsys_member('severity', CASE severity WHEN 1 THEN 'info' WHEN 2 THEN 'warning' WHEN 3 THEN 'error' WHEN 4 THEN 'verbose' END),
        nsys_number('source', source)
    )) AS args
FROM nsys_diagnostic_event;
