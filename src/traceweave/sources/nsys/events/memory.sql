-- Copies between and inside host and device memory, memory set to a value, allocations and releases of device memory.

CREATE OR REPLACE TEMP MACRO nsys_memory(kind) AS CASE kind
    WHEN 0 THEN 'pageable' WHEN 1 THEN 'pinned' WHEN 2 THEN 'device' WHEN 3 THEN 'array' WHEN 4 THEN 'managed'
    WHEN 5 THEN 'device static' WHEN 6 THEN 'managed static' WHEN 7 THEN 'unknown'
END;

INSERT INTO new_gpu_ops BY NAME
WITH kinds (copyKind, name) AS (
    VALUES (0, 'unknown'), (1, 'HtoD'), (2, 'DtoH'), (3, 'HtoA'), (4, 'AtoH'), (5, 'AtoA'), (6, 'AtoD'), (7, 'DtoA'),
        (8, 'DtoD'), (9, 'HtoH'), (10, 'PtoP'), (11, 'UVM HtoD'), (12, 'UVM DtoH'), (13, 'UVM DtoD')
)
SELECT
    c.rank,
    c.op_id,
    'memcpy' AS kind,
    'Memcpy ' || coalesce(kinds.name, 'unknown') AS name,
    c.deviceId AS device,
    c.contextId AS context,
    c.streamId AS stream,
    c.start_local_ns,
    c.duration_ns,
    c.correlationId AS correlation,
    l.op_id AS launch_op_id,
    c.bytes,
    coalesce(kinds.name, c.copyKind::VARCHAR) AS copy_kind,
    nullif(c.graphNodeId, 0) AS graph_node,
    nsys_args(concat_ws(',',
        nsys_member('source', nsys_memory(c.srcKind)),
        nsys_member('destination', nsys_memory(c.dstKind)),
        nsys_number('source device', c.srcDeviceId),
        nsys_number('source context', c.srcContextId),
        nsys_number('destination device', c.dstDeviceId),
        nsys_number('destination context', c.dstContextId),
        nsys_number('migration cause', nullif(c.migrationCause, 0)),
        nsys_number('copies', c.copyCount),
        nsys_number('green context', nullif(c.greenContextId, 0))
    )) AS args
FROM nsys_cupti_activity_kind_memcpy AS c
LEFT JOIN nsys_launches AS l USING (process, correlationId)
LEFT JOIN kinds USING (copyKind);

INSERT INTO new_gpu_ops BY NAME
SELECT
    m.rank,
    m.op_id,
    'memset' AS kind,
    'Memset' AS name,
    m.deviceId AS device,
    m.contextId AS context,
    m.streamId AS stream,
    m.start_local_ns,
    m.duration_ns,
    m.correlationId AS correlation,
    l.op_id AS launch_op_id,
    m.bytes,
    nullif(m.graphNodeId, 0) AS graph_node,
    nsys_args(concat_ws(',',
        nsys_number('value', m.value),
        nsys_number('memory kind', m.memKind),
        nsys_number('green context', nullif(m.greenContextId, 0))
    )) AS args
FROM nsys_cupti_activity_kind_memset AS m LEFT JOIN nsys_launches AS l USING (process, correlationId);

INSERT INTO base.memory_events BY NAME
SELECT
    rank,
    op_id,
    source_id,
    'cuda:' || deviceId AS device,
    CASE memoryOperationType WHEN 0 THEN 'allocate' WHEN 1 THEN 'free' ELSE 'unknown' END
        || coalesce(' ' || nsys_memory(memKind), '') AS name,
    start_local_ns AS at_local_ns,
    CASE memoryOperationType WHEN 0 THEN bytes WHEN 1 THEN -bytes END AS value,
    address,
    nsys_args(concat_ws(',',
        nsys_number('context', contextId),
        nsys_number('stream', streamId),
        nsys_number('correlation', correlationId),
        nsys_member('name', m.name),
        nsys_number('bytes', CASE WHEN coalesce(memoryOperationType, 9) NOT IN (0, 1) THEN bytes END),
        nsys_number('pool address', nullif(localMemoryPoolAddress, 0)),
        nsys_number('pool release threshold', localMemoryPoolReleaseThreshold),
        nsys_number('pool size', localMemoryPoolSize),
        nsys_number('pool utilized size', localMemoryPoolUtilizedSize),
        nsys_number('imported pool address', nullif(importedMemoryPoolAddress, 0)),
        nsys_number('imported pool process', importedMemoryPoolProcessId)
    )) AS args
FROM nsys_cuda_gpu_memory_usage_events AS m;
