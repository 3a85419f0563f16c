-- shared: program | what was recorded: advice has to fit it
-- grain: one row
-- column: is_torch BOOLEAN | a PyTorch program: operators, their ranges or its own kernels are there
-- column: is_cuda BOOLEAN | its device is driven through CUDA or HIP
-- column: is_compiled BOOLEAN | code of torch.compile launches at least half of its GPU ops
-- column: is_narrow BOOLEAN | kernels that compute in 16 bits or fewer, by their names, are at least half of its compute
-- column: has_math_attention BOOLEAN | torch's attention runs as its math backend: softmax and products one by one
-- column: has_optimizer BOOLEAN | parameters are updated
-- column: has_fused_optimizer BOOLEAN | by kernels that do all of an update
-- column: has_cpu_optimizer BOOLEAN | on the CPU of a run with GPUs: ranges of an optimizer are there, and none of its kernels
-- column: is_graphed BOOLEAN | CUDA or HIP graphs launched what runs for at least half of the time of its GPU ops
-- column: repeats BOOLEAN | what it runs on its GPU it runs again: several steps, or most kernels run three times or more
-- column: tick_ns INTEGER | smallest difference of times that every trace can tell
-- column: ranks BIGINT | ranks recorded
-- column: is_partial BOOLEAN | fewer than the job has
WITH kernels AS MATERIALIZED (
    SELECT any_value(name) AS name, kind, category, class, count(*) AS runs, sum(duration_ns) AS time_ns
    FROM gpu_ops
    GROUP BY gpu_ops.name, kind, category, class
)
SELECT
    EXISTS (FROM host_ops WHERE kind = 'op' OR starts_with(name, 'aten::') OR starts_with(name, 'autograd::'))
        OR EXISTS (FROM kernels WHERE contains(name, 'at::native::')) AS is_torch,
    EXISTS (FROM host_ops WHERE kind IN ('runtime', 'driver') AND {{ names('device_apis', 'name') }} IS NOT NULL) AS is_cuda,
    2 * (SELECT count(*) FROM {{ ref('compiled_ops') }}) >= (SELECT sum(runs) FROM kernels) IS TRUE AS is_compiled,
    coalesce((
        SELECT 2 * sum(time_ns) FILTER ({{ names('narrow_kernels', 'name') }} = 'yes') >= sum(time_ns)
        FROM kernels WHERE category = 'compute'
    ), FALSE) AS is_narrow,
    EXISTS (FROM host_ops WHERE name = 'aten::_scaled_dot_product_attention_math') AS has_math_attention,
    EXISTS (FROM host_ops JOIN tw_range_names USING (name) WHERE optimizer IS NOT NULL)
        OR EXISTS (FROM kernels WHERE class = 'optimizer') AS has_optimizer,
    -- scaling of losses comes with any
    EXISTS (FROM kernels WHERE class = 'optimizer' AND NOT contains(name, 'amp_update_scale')) AS has_fused_optimizer,
    EXISTS (FROM host_ops JOIN tw_range_names USING (name) WHERE optimizer IS NOT NULL)
        AND EXISTS (FROM kernels) AND NOT EXISTS (FROM kernels WHERE class = 'optimizer') AS has_cpu_optimizer,
    coalesce(2 * (SELECT sum(duration_ns) FROM tw_graph_ops()) >= (SELECT sum(time_ns) FROM kernels), FALSE) AS is_graphed,
    (SELECT count(DISTINCT step) > 1 FROM steps) OR coalesce((
        SELECT 2 * sum(runs) FILTER (WHERE runs > 2) >= sum(runs)
        FROM (SELECT sum(runs) AS runs FROM kernels WHERE kind = 'kernel' GROUP BY name)
    ), FALSE) AS repeats,
    coalesce((SELECT max(tick_ns) FROM ranks), 1) AS tick_ns,
    (SELECT count(*) FROM ranks) AS ranks,
    (SELECT coalesce(count(*) < max(world_size), FALSE) FROM ranks) AS is_partial
