-- Events without a table of their own: host-side waits, CUDA events, diagnostics; memory and metric samples.

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
    nsys_args([
        nsys_member('device', y.deviceId),
        nsys_member('context', y.contextId),
        -- 4294967295 means none
        nsys_member('stream', nullif(y.streamId, 4294967295)),
        nsys_member('event', nullif(y.eventId, 4294967295)),
        nsys_member('event sync id', y.eventSyncId),
        nsys_member('correlation', y.correlationId)
    ]) AS args
FROM nsys_cupti_activity_kind_synchronization AS y
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON coalesce(y.globalPid, s.sole_process) = p.process
LEFT JOIN nsys_launches AS l
    ON coalesce(y.globalPid, s.sole_process) = l.process AND y.correlationId = l.correlation
WHERE nsys_timely(y.start) AND nsys_timely(y."end") AND y."end" >= y.start;

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
    nsys_args([
        nsys_member('device', e.deviceId),
        nsys_member('context', e.contextId),
        nsys_member('stream', e.streamId),
        nsys_member('event', e.eventId),
        nsys_member('event sync id', e.eventSyncId),
        nsys_member('correlation', e.correlationId),
        nsys_member('time of', CASE WHEN e.timestamp IS NULL AND l.op_id IS NOT NULL THEN 'record call' END)
    ]) AS args
FROM nsys_cupti_activity_kind_cuda_event AS e
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON coalesce(e.globalPid, s.sole_process) = p.process
LEFT JOIN nsys_launches AS l
    ON coalesce(e.globalPid, s.sole_process) = l.process AND e.correlationId = l.correlation;

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
    nsys_args([
        nsys_member('severity', CASE d.severity
            WHEN 1 THEN 'info' WHEN 2 THEN 'warning' WHEN 3 THEN 'error' WHEN 4 THEN 'verbose'
        END),
        nsys_member('source', d.source)
    ]) AS args
FROM nsys_diagnostic_event AS d
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON nsys_process(d.globalPid) = p.process
WHERE nsys_timely(d.timestamp);

INSERT INTO base.memory_events BY NAME
WITH
places (id, name) AS (
    VALUES (0, 'pageable'), (1, 'pinned'), (2, 'device'), (3, 'array'), (4, 'managed'), (5, 'device static'),
        (6, 'managed static'), (7, 'unknown')
)
SELECT
    p.rank,
    m.op_id,
    s.source_id,
    'cuda:' || m.deviceId AS device,
    CASE m.memoryOperationType WHEN 0 THEN 'allocate' WHEN 1 THEN 'free' ELSE 'unknown' END
        || coalesce(' ' || places.name, '') AS name,
    m.start + s.base_ns AS at_local_ns,
    CASE m.memoryOperationType WHEN 0 THEN m.bytes WHEN 1 THEN -m.bytes END AS value,
    m.address,
    nsys_args([
        nsys_member('context', m.contextId),
        nsys_member('stream', m.streamId),
        nsys_member('correlation', m.correlationId),
        nsys_member('name', m.name),
        nsys_member('bytes', CASE WHEN coalesce(m.memoryOperationType, 9) NOT IN (0, 1) THEN m.bytes END),
        nsys_member('pool address', nullif(m.localMemoryPoolAddress, 0)),
        nsys_member('pool release threshold', m.localMemoryPoolReleaseThreshold),
        nsys_member('pool size', m.localMemoryPoolSize),
        nsys_member('pool utilized size', m.localMemoryPoolUtilizedSize),
        nsys_member('imported pool address', nullif(m.importedMemoryPoolAddress, 0)),
        nsys_member('imported pool process', m.importedMemoryPoolProcessId)
    ]) AS args
FROM nsys_cuda_gpu_memory_usage_events AS m
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON m.globalPid = p.process
LEFT JOIN places ON m.memKind = places.id
WHERE nsys_timely(m.start) AND abs(coalesce(m.bytes, 0)) < 4611686018427387904;

-- Metrics belong to a GPU or an adapter of the node, not to a rank. The lowest byte of typeId numbers the GPU the way
-- NVIDIA does, which is not the CUDA ordinal.
INSERT INTO base.counters BY NAME
SELECT
    NULL::INTEGER AS rank,
    g.op_id,
    s.source_id,
    'gpu ' || (g.typeId & 255) AS device,
    coalesce(n.name, 'metric ' || g.metricId) AS name,
    g.timestamp + s.base_ns AS at_local_ns,
    g.value::DOUBLE AS value
FROM nsys_gpu_metrics AS g
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_gpu_metric_names AS n ON g.typeId = n.type_id AND g.metricId = n.metric_id
WHERE nsys_timely(g.timestamp);

INSERT INTO base.counters BY NAME
WITH
samples AS (
    SELECT *, 'nic ' AS adapter FROM nsys_net_nic_metric
    UNION ALL BY NAME SELECT *, 'switch ' AS adapter FROM nsys_net_ib_switch_metric
)
SELECT
    NULL::INTEGER AS rank,
    m.op_id,
    s.source_id,
    m.adapter || m.globalId || coalesce(' port ' || m.portId, '') AS device,
    coalesce(n.name, 'metric ' || m.metricsIdx) AS name,
    m.start + s.base_ns AS at_local_ns,
    m.value::DOUBLE AS value,
    n.unit
FROM samples AS m
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_network_metric_names AS n ON m.metricsListId = n.list_id AND m.metricsIdx = n.metric_id
WHERE nsys_timely(m.start);
