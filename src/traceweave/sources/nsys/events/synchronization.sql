-- Waits of the host, and of one stream for another.

INSERT INTO base.other_events BY NAME
SELECT
    p.rank,
    y.op_id,
    s.source_id,
    'X' AS phase,
    'cuda_sync' AS category,
    CASE y.syncType
        WHEN 1 THEN 'Event Synchronize'
        WHEN 2 THEN 'Stream Wait Event'
        WHEN 3 THEN 'Stream Synchronize'
        WHEN 4 THEN 'Context Synchronize'
        ELSE 'Unknown'
    END AS name,
    nsys_pid(coalesce(y.globalPid, s.sole_process))::VARCHAR AS pid,
    nsys_tid(l.thread)::VARCHAR AS tid,
    y.start + s.base_ns AS start_local_ns,
    y."end" - y.start AS duration_ns,
    nsys_args(concat_ws(',',
        nsys_number('device', y.deviceId),
        nsys_number('context', y.contextId),
        -- 4294967295 means none
        nsys_number('stream', nullif(y.streamId, 4294967295)),
        nsys_number('event', nullif(y.eventId, 4294967295)),
        nsys_number('event sync id', y.eventSyncId),
        nsys_number('correlation', y.correlationId)
    )) AS args
FROM nsys_cupti_activity_kind_synchronization AS y
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON coalesce(y.globalPid, s.sole_process) = p.process
LEFT JOIN nsys_launches AS l
    ON coalesce(y.globalPid, s.sole_process) = l.process AND y.correlationId = l.correlation
WHERE nsys_timely(y.start) AND nsys_timely(y."end") AND y."end" >= y.start;
