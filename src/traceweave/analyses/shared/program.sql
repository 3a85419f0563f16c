-- shared: program | what was recorded: advice has to fit it
-- grain: one row
-- column: is_torch BOOLEAN | a PyTorch program: operators, their ranges or its own kernels are there
-- column: is_cuda BOOLEAN | its device is driven through CUDA or HIP
-- column: is_graphed BOOLEAN | CUDA or HIP graphs launched what runs for at least half of the time of its GPU ops
-- column: tick_ns INTEGER | smallest difference of times that every trace can tell
-- column: ranks BIGINT | ranks recorded
SELECT
    EXISTS (FROM host_ops WHERE kind = 'op' OR starts_with(name, 'aten::') OR starts_with(name, 'autograd::'))
        OR EXISTS (FROM gpu_ops WHERE contains(name, 'at::native::')) AS is_torch,
    EXISTS (FROM host_ops WHERE kind IN ('runtime', 'driver') AND {{ names('device_apis', 'name') }} IS NOT NULL) AS is_cuda,
    coalesce((
        SELECT 2 * sum(g.duration_ns) FILTER (WHERE g.graph_node IS NOT NULL OR g.name = 'CUDA graph' OR h.op_id IS NOT NULL) >= sum(g.duration_ns)
        FROM gpu_ops AS g
        LEFT JOIN (
            SELECT op_id FROM host_ops WHERE kind IN ('runtime', 'driver') AND name IN (SELECT name FROM tw_call_names WHERE launches = 'graph')
        ) AS h ON h.op_id = g.launch_op_id
    ), FALSE) AS is_graphed,
    coalesce((SELECT max(tick_ns) FROM ranks), 1) AS tick_ns,
    (SELECT count(*) FROM ranks) AS ranks
