-- Before schema 3.25 a CUDA event has no time of its own: that of the call that recorded it stands for it.
INSERT INTO base.other_events BY NAME
SELECT
    p.rank,
    e.op_id,
    s.source_id,
    'i' AS phase,
    'cuda_event' AS category,
    'CUDA event' AS name,
    nsys_pid(coalesce(e.globalPid, s.sole_process))::VARCHAR AS pid,
    nsys_tid(l.thread)::VARCHAR AS tid,
    coalesce(CASE WHEN nsys_timely(e.timestamp) THEN e.timestamp END, l.start) + s.base_ns AS start_local_ns,
    nsys_args(concat_ws(',',
        nsys_number('device', e.deviceId),
        nsys_number('context', e.contextId),
        nsys_number('stream', e.streamId),
        nsys_number('event', e.eventId),
        nsys_number('event sync id', e.eventSyncId),
        nsys_number('correlation', e.correlationId),
        nsys_member('time of', CASE WHEN e.timestamp IS NULL AND l.op_id IS NOT NULL THEN 'record call' END)
    )) AS args
FROM nsys_cupti_activity_kind_cuda_event AS e
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON coalesce(e.globalPid, s.sole_process) = p.process
LEFT JOIN nsys_launches AS l
    ON coalesce(e.globalPid, s.sole_process) = l.process AND e.correlationId = l.correlation;
