-- Allocations and releases of device memory.

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
    nsys_args(concat_ws(',',
        nsys_number('context', m.contextId),
        nsys_number('stream', m.streamId),
        nsys_number('correlation', m.correlationId),
        nsys_member('name', m.name),
        nsys_number('bytes', CASE WHEN coalesce(m.memoryOperationType, 9) NOT IN (0, 1) THEN m.bytes END),
        nsys_number('pool address', nullif(m.localMemoryPoolAddress, 0)),
        nsys_number('pool release threshold', m.localMemoryPoolReleaseThreshold),
        nsys_number('pool size', m.localMemoryPoolSize),
        nsys_number('pool utilized size', m.localMemoryPoolUtilizedSize),
        nsys_number('imported pool address', nullif(m.importedMemoryPoolAddress, 0)),
        nsys_number('imported pool process', m.importedMemoryPoolProcessId)
    )) AS args
FROM nsys_cuda_gpu_memory_usage_events AS m
CROSS JOIN nsys_session AS s
LEFT JOIN nsys_processes AS p ON m.globalPid = p.process
LEFT JOIN places ON m.memKind = places.id
WHERE nsys_timely(m.start) AND abs(coalesce(m.bytes, 0)) < 4611686018427387904;
