-- Kernels, each linked to the host call that launched it.

-- Launches are many, ways to launch are few: names and args are put together once for each. Of ten thousand ways two have
-- one hash of 64 bits in one of 10^11 reports.
CREATE OR REPLACE TEMP VIEW nsys_shaped_kernels AS
SELECT
    *,
    hash(
        demangledName, shortName, gridX, gridY, gridZ, blockX, blockY, blockZ, clusterX, clusterY, clusterZ, registersPerThread,
        staticSharedMemory, dynamicSharedMemory, sharedMemoryExecuted, localMemoryPerThread, localMemoryTotal, launchType,
        cacheConfig, greenContextId, graphId
    ) AS shape
FROM nsys_cupti_activity_kind_kernel;

CREATE OR REPLACE TEMP TABLE nsys_kernel_shapes AS
SELECT
    k.shape,
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
FROM (SELECT DISTINCT ON (shape) * FROM nsys_shaped_kernels) AS k
LEFT JOIN nsys_strings AS long ON k.demangledName = long.id
LEFT JOIN nsys_strings AS short ON k.shortName = short.id;

-- The names, which are long, are looked up last: what is joined to the launches is narrow.
INSERT INTO new_gpu_ops BY NAME
WITH
kernels AS MATERIALIZED (
    SELECT k.op_id, k.rank, deviceId, contextId, streamId, k.start_local_ns, duration_ns, correlationId, l.op_id AS launch_op_id, graphNodeId, gridId, shape
    FROM nsys_shaped_kernels AS k LEFT JOIN nsys_launches AS l USING (process, correlationId)
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
