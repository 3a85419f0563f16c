-- Waits of the host and of one stream for another, and the events that are waited for. 4294967295 means none.

INSERT INTO base.other_events BY NAME
SELECT
    y.rank,
    y.op_id,
    y.source_id,
    'X' AS phase,
    'cuda_sync' AS category,
    CASE y.syncType
        WHEN 1 THEN 'Event Synchronize'
        WHEN 2 THEN 'Stream Wait Event'
        WHEN 3 THEN 'Stream Synchronize'
        WHEN 4 THEN 'Context Synchronize'
        ELSE 'Unknown'
    END AS name,
    y.pid::VARCHAR AS pid,
    l.tid::VARCHAR AS tid,
    y.start_local_ns,
    y.duration_ns,
    nsys_args(concat_ws(',',
        nsys_number('device', y.deviceId),
        nsys_number('context', y.contextId),
        nsys_number('stream', nullif(y.streamId, 4294967295)),
        nsys_number('event', nullif(y.eventId, 4294967295)),
        nsys_number('event sync id', y.eventSyncId),
        nsys_number('correlation', y.correlationId)
    )) AS args
FROM nsys_cupti_activity_kind_synchronization AS y LEFT JOIN nsys_launches AS l USING (process, correlationId);

-- Before schema 3.25 an event has no time of its own: that of the call that recorded it stands for it.
INSERT INTO base.other_events BY NAME
SELECT
    e.rank,
    e.op_id,
    e.source_id,
    'i' AS phase,
    'cuda_event' AS category,
    'CUDA event' AS name,
    e.pid::VARCHAR AS pid,
    l.tid::VARCHAR AS tid,
    coalesce(e.start_local_ns, l.start_local_ns) AS start_local_ns,
    nsys_args(concat_ws(',',
        nsys_number('device', e.deviceId),
        nsys_number('context', e.contextId),
        nsys_number('stream', e.streamId),
        nsys_number('event', e.eventId),
        nsys_number('event sync id', e.eventSyncId),
        nsys_number('correlation', e.correlationId),
        nsys_member('time of', CASE WHEN e.timestamp IS NULL AND l.op_id IS NOT NULL THEN 'record call' END)
    )) AS args
FROM nsys_cupti_activity_kind_cuda_event AS e LEFT JOIN nsys_launches AS l USING (process, correlationId);
