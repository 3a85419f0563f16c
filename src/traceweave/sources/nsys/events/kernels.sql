-- Kernels, each linked to the host call that launched it.

-- Launches are many, ways to launch are few: names and args are put together once for each.
CREATE OR REPLACE TEMP TABLE nsys_kernel_shapes AS
WITH shapes AS (
    SELECT DISTINCT
        demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, clusterX, clusterY, clusterZ, registersPerThread,
        staticSharedMemory, dynamicSharedMemory, sharedMemoryExecuted, localMemoryPerThread, localMemoryTotal, launchType,
        cacheConfig, greenContextId, graphId
    FROM nsys_cupti_activity_kind_kernel
)
SELECT
    k.*,
    row_number() OVER () AS shape,
    coalesce(long.value, short.value, 'unnamed kernel') AS name,
    nullif(concat_ws(',',
        nsys_member('short_name', short.value),
        nsys_member('grid', CASE WHEN gridX IS NOT NULL THEN [gridX, gridY, gridZ] END),
        nsys_member('block', CASE WHEN blockX IS NOT NULL THEN [blockX, blockY, blockZ] END),
        nsys_member('cluster', CASE WHEN clusterX > 0 THEN [clusterX, clusterY, clusterZ] END),
        nsys_number('registers per thread', registersPerThread),
        nsys_number('static shared memory', staticSharedMemory),
        nsys_number('dynamic shared memory', dynamicSharedMemory),
        nsys_number('shared memory executed', sharedMemoryExecuted),
        nsys_number('local memory per thread', localMemoryPerThread),
        nsys_number('local memory total', localMemoryTotal),
        nsys_number('launch type', nullif(launchType, 0)),
        nsys_number('cache config', nullif(cacheConfig, 0))
    ), '') AS before_grid_id,
    nullif(concat_ws(',',
        nsys_number('green context', nullif(greenContextId, 0)),
        nsys_number('graph id', nullif(graphId, 0))
    ), '') AS after_grid_id
FROM shapes AS k
LEFT JOIN nsys_strings AS long ON k.demangledName = long.id
LEFT JOIN nsys_strings AS short ON k.shortName = short.id;

-- The names, which are long, are looked up last: what is joined to the launches is narrow.
INSERT INTO new_gpu_ops BY NAME
WITH
kernels AS MATERIALIZED (
    SELECT
        k.op_id, p.rank, k.deviceId, k.contextId, k.streamId, k.start + s.base_ns AS start_local_ns, k."end" - k.start AS duration_ns,
        k.correlationId, l.op_id AS launch_op_id, k.graphNodeId, k.gridId, h.shape
    FROM nsys_cupti_activity_kind_kernel AS k
    CROSS JOIN nsys_session AS s
    LEFT JOIN nsys_kernel_shapes AS h
    ON k.demangledName IS NOT DISTINCT FROM h.demangledName AND k.shortName IS NOT DISTINCT FROM h.shortName
        AND k.gridX IS NOT DISTINCT FROM h.gridX AND k.gridY IS NOT DISTINCT FROM h.gridY AND k.gridZ IS NOT DISTINCT FROM h.gridZ
        AND k.blockX IS NOT DISTINCT FROM h.blockX AND k.blockY IS NOT DISTINCT FROM h.blockY
        AND k.blockZ IS NOT DISTINCT FROM h.blockZ
        AND k.clusterX IS NOT DISTINCT FROM h.clusterX AND k.clusterY IS NOT DISTINCT FROM h.clusterY
        AND k.clusterZ IS NOT DISTINCT FROM h.clusterZ
        AND k.registersPerThread IS NOT DISTINCT FROM h.registersPerThread
        AND k.staticSharedMemory IS NOT DISTINCT FROM h.staticSharedMemory
        AND k.dynamicSharedMemory IS NOT DISTINCT FROM h.dynamicSharedMemory
        AND k.sharedMemoryExecuted IS NOT DISTINCT FROM h.sharedMemoryExecuted
        AND k.localMemoryPerThread IS NOT DISTINCT FROM h.localMemoryPerThread
        AND k.localMemoryTotal IS NOT DISTINCT FROM h.localMemoryTotal
        AND k.launchType IS NOT DISTINCT FROM h.launchType AND k.cacheConfig IS NOT DISTINCT FROM h.cacheConfig
        AND k.greenContextId IS NOT DISTINCT FROM h.greenContextId AND k.graphId IS NOT DISTINCT FROM h.graphId
    LEFT JOIN nsys_processes AS p ON coalesce(k.globalPid, s.sole_process) = p.process
    LEFT JOIN nsys_launches AS l ON coalesce(k.globalPid, s.sole_process) = l.process AND k.correlationId = l.correlation
    WHERE nsys_timely(k.start) AND nsys_timely(k."end") AND k."end" >= k.start
)
SELECT
    k.rank,
    k.op_id,
    'kernel' AS kind,
    h.name,
    k.deviceId AS device,
    k.contextId AS context,
    k.streamId AS stream,
    k.start_local_ns,
    k.duration_ns,
    k.correlationId AS correlation,
    k.launch_op_id,
    nullif(k.graphNodeId, 0) AS graph_node,
    nsys_args(concat_ws(',', h.before_grid_id, nsys_number('grid id', nullif(k.gridId, 0)), h.after_grid_id)) AS args
FROM kernels AS k LEFT JOIN nsys_kernel_shapes AS h USING (shape);
