-- GPU work: kernels, copies, sets, and the spans of whole CUDA graphs, each linked to the host call that launched it.

INSERT INTO new_gpu_ops BY NAME
WITH
kernels AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_kernel CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    k.op_id,
    'kernel' AS kind,
    coalesce(long.value, short.value, 'unnamed kernel') AS name,
    k.deviceId AS device,
    k.contextId AS context,
    k.streamId AS stream,
    k.start + k.base_ns AS start_local_ns,
    k."end" - k.start AS duration_ns,
    k.correlationId AS correlation,
    l.op_id AS launch_op_id,
    nullif(k.graphNodeId, 0) AS graph_node,
    nsys_args([
        nsys_member('short_name', short.value),
        nsys_member('grid', CASE WHEN k.gridX IS NOT NULL THEN [k.gridX, k.gridY, k.gridZ] END),
        nsys_member('block', CASE WHEN k.blockX IS NOT NULL THEN [k.blockX, k.blockY, k.blockZ] END),
        nsys_member('cluster', CASE WHEN k.clusterX > 0 THEN [k.clusterX, k.clusterY, k.clusterZ] END),
        nsys_member('registers per thread', k.registersPerThread),
        nsys_member('static shared memory', k.staticSharedMemory),
        nsys_member('dynamic shared memory', k.dynamicSharedMemory),
        nsys_member('shared memory executed', k.sharedMemoryExecuted),
        nsys_member('local memory per thread', k.localMemoryPerThread),
        nsys_member('local memory total', k.localMemoryTotal),
        nsys_member('launch type', nullif(k.launchType, 0)),
        nsys_member('cache config', nullif(k.cacheConfig, 0)),
        nsys_member('grid id', nullif(k.gridId, 0)),
        nsys_member('green context', nullif(k.greenContextId, 0)),
        nsys_member('graph id', nullif(k.graphId, 0))
    ]) AS args
FROM kernels AS k
LEFT JOIN nsys_processes AS p ON k.process = p.process
LEFT JOIN nsys_launches AS l ON k.process = l.process AND k.correlationId = l.correlation
LEFT JOIN nsys_strings AS long ON k.demangledName = long.id
LEFT JOIN nsys_strings AS short ON k.shortName = short.id;

INSERT INTO new_gpu_ops BY NAME
WITH
kinds (id, name) AS (
    VALUES (0, 'unknown'), (1, 'HtoD'), (2, 'DtoH'), (3, 'HtoA'), (4, 'AtoH'), (5, 'AtoA'), (6, 'AtoD'), (7, 'DtoA'),
        (8, 'DtoD'), (9, 'HtoH'), (10, 'PtoP'), (11, 'UVM HtoD'), (12, 'UVM DtoH'), (13, 'UVM DtoD')
),
places (id, name) AS (
    VALUES (0, 'pageable'), (1, 'pinned'), (2, 'device'), (3, 'array'), (4, 'managed'), (5, 'device static'),
        (6, 'managed static'), (7, 'unknown')
),
copies AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_memcpy CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    c.op_id,
    'memcpy' AS kind,
    'Memcpy ' || coalesce(kinds.name, 'unknown') AS name,
    c.deviceId AS device,
    c.contextId AS context,
    c.streamId AS stream,
    c.start + c.base_ns AS start_local_ns,
    c."end" - c.start AS duration_ns,
    c.correlationId AS correlation,
    l.op_id AS launch_op_id,
    c.bytes,
    coalesce(kinds.name, c.copyKind::VARCHAR) AS copy_kind,
    nullif(c.graphNodeId, 0) AS graph_node,
    nsys_args([
        nsys_member('source', source.name),
        nsys_member('destination', destination.name),
        nsys_member('source device', c.srcDeviceId),
        nsys_member('source context', c.srcContextId),
        nsys_member('destination device', c.dstDeviceId),
        nsys_member('destination context', c.dstContextId),
        nsys_member('migration cause', nullif(c.migrationCause, 0)),
        nsys_member('copies', c.copyCount),
        nsys_member('green context', nullif(c.greenContextId, 0))
    ]) AS args
FROM copies AS c
LEFT JOIN nsys_processes AS p ON c.process = p.process
LEFT JOIN nsys_launches AS l ON c.process = l.process AND c.correlationId = l.correlation
LEFT JOIN kinds ON c.copyKind = kinds.id
LEFT JOIN places AS source ON c.srcKind = source.id
LEFT JOIN places AS destination ON c.dstKind = destination.id;

INSERT INTO new_gpu_ops BY NAME
WITH
sets AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_memset CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    m.op_id,
    'memset' AS kind,
    'Memset' AS name,
    m.deviceId AS device,
    m.contextId AS context,
    m.streamId AS stream,
    m.start + m.base_ns AS start_local_ns,
    m."end" - m.start AS duration_ns,
    m.correlationId AS correlation,
    l.op_id AS launch_op_id,
    m.bytes,
    nullif(m.graphNodeId, 0) AS graph_node,
    nsys_args([
        nsys_member('value', m.value),
        nsys_member('memory kind', m.memKind),
        nsys_member('green context', nullif(m.greenContextId, 0))
    ]) AS args
FROM sets AS m
LEFT JOIN nsys_processes AS p ON m.process = p.process
LEFT JOIN nsys_launches AS l ON m.process = l.process AND m.correlationId = l.correlation;

-- With --cuda-graph-trace=graph a launched graph is one span; its kernels have no rows of their own.
INSERT INTO new_gpu_ops BY NAME
WITH
graphs AS (
    SELECT *, coalesce(globalPid, sole_process) AS process
    FROM nsys_cupti_activity_kind_graph_trace CROSS JOIN nsys_session
    WHERE nsys_timely(start) AND nsys_timely("end") AND "end" >= start
)
SELECT
    p.rank,
    g.op_id,
    'kernel' AS kind,
    'CUDA graph' AS name,
    g.deviceId AS device,
    g.contextId AS context,
    g.streamId AS stream,
    g.start + g.base_ns AS start_local_ns,
    g."end" - g.start AS duration_ns,
    g.correlationId AS correlation,
    l.op_id AS launch_op_id,
    nsys_args([
        nsys_member('graph id', g.graphId),
        nsys_member('graph exec id', g.graphExecId),
        nsys_member('green context', nullif(g.greenContextId, 0))
    ]) AS args
FROM graphs AS g
LEFT JOIN nsys_processes AS p ON g.process = p.process
LEFT JOIN nsys_launches AS l ON g.process = l.process AND g.correlationId = l.correlation;
