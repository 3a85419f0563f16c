-- What nsys says about its own recording.

INSERT INTO base.other_events BY NAME
SELECT
    p.rank,
    d.op_id,
    s.source_id,
    'i' AS phase,
    'diagnostic' AS category,
    d.text AS name,
    nsys_pid(d.globalPid)::VARCHAR AS pid,
    d.timestamp + s.base_ns AS start_local_ns,
    nsys_args(concat_ws(',',
        nsys_member('severity', CASE d.severity
            WHEN 1 THEN 'info' WHEN 2 THEN 'warning' WHEN 3 THEN 'error' WHEN 4 THEN 'verbose'
        END),
        nsys_number('source', d.source)
    )) AS args
FROM nsys_diagnostic_event AS d
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON nsys_process(d.globalPid) = p.process
WHERE nsys_timely(d.timestamp);
