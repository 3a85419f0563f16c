-- rule: compute_bound | compute
-- topic: what costs no time
-- finds: Compute runs for at least `compute_bound_share` (80 %) of the step; compiling code is none. Good news: only faster kernels help.
-- proof: breakdown
-- shows: ops compute
-- param: min_share
-- param: compute_bound_share DOUBLE = 0.8 | compute for at least this share of the step is compute-bound
SELECT
    format(CASE WHEN has_gpu THEN '{} computes {} of its time' ELSE '{} runs operators {} of its time' END, each_unit, tw_percent(compute_ns / step_ns)) AS title,
    format('{} for {} of the {}', CASE WHEN has_gpu THEN 'Compute runs' ELSE 'No GPU work was recorded; operators on the CPU run' END,
        tw_percent(compute_ns / step_ns), unit)
        -- where they are many, much of that is calling them
        || coalesce(format('. {} runs {}, one per {} of compute', each_unit, tw_about(o.count / windows, 'operator'), tw_time(compute_ns * windows / nullif(o.count, 0))), '') AS evidence,
    CASE
        WHEN has_gpu THEN 'Faster kernels: ' || coalesce(nullif(array_to_string([
            CASE WHEN is_torch AND NOT is_narrow THEN 'lower precision' END,
            CASE WHEN has_math_attention OR is_torch AND k.softmax_ns >= {{ param('min_share') }} * k.all_ns AND k.attention_ns IS NULL THEN 'fused attention' END,
            CASE WHEN is_torch AND has_optimizer AND NOT has_fused_optimizer THEN 'fused optimizers' END,
            CASE WHEN is_torch AND k.fusable_ns >= {{ param('min_share') }} * k.all_ns AND NOT is_compiled THEN 'torch.compile' END
        ], ', '), '') || '; ', '') || 'see kernels'
        ELSE 'See host_ops; if the run has a GPU, record CUDA activity. A truncated file lacks its kernels'
    END AS advice
FROM (
    -- without a GPU, what torch.compile does lies on the same threads as operators, and is recorded like them
    SELECT * REPLACE (compute_ns - CASE WHEN has_gpu THEN 0 ELSE coalesce((SELECT sum(compile_ns) FROM {{ ref('compiling') }}), 0) / windows END AS compute_ns)
    FROM {{ ref('mean_step') }}
) CROSS JOIN {{ ref('program') }} CROSS JOIN (
    SELECT
        sum(duration_ns) AS all_ns,
        sum(duration_ns) FILTER (WHERE class NOT IN ('gemm', 'conv', 'attention')) AS fusable_ns,
        sum(duration_ns) FILTER (WHERE class = 'softmax') AS softmax_ns,
        sum(duration_ns) FILTER (WHERE class = 'attention') AS attention_ns
    FROM gpu_ops
    WHERE category = 'compute'
) AS k CROSS JOIN (
    SELECT count(*) AS count
    FROM host_ops AS h CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE NOT s.has_gpu AND h.kind = 'op' AND tw_counts(h.rank, h.step)
) AS o
WHERE compute_ns >= {{ param('compute_bound_share') }} * step_ns
