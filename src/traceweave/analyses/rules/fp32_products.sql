-- rule: fp32_products | fp32 products off the tensor cores
-- topic: compute
-- finds: Matrix products in fp32 on the ordinary cores of a GPU, by the names of their kernels: torch's default, unless TF32 is allowed. The scenario makes them as much faster as the peak of TF32 is higher, or where a GPU has none that of fp16: the limit, as kernels differ in how near they come to it. Silent where it would be less than `min_share` of the step, where any run in TF32, which then is allowed, and where the peaks of a GPU are not known.
-- try: TF32 (`torch.set_float32_matmul_precision('high')`) or 16 bits (autocast), if the model bears it.
-- proof: flops
-- shows: ops compute
-- param: min_share
WITH rates AS (
    SELECT
        gpu_name,
        max(peak_tflops) FILTER (WHERE dtype = 'fp32') AS fp32,
        max(peak_tflops) FILTER (WHERE dtype = 'tf32') AS tf32,
        max(peak_tflops) FILTER (WHERE dtype = 'fp16') AS fp16
    FROM tw_gpu_peaks
    GROUP BY gpu_name
),
-- the least that all of its GPUs have
faster AS (
    SELECT min(CASE WHEN r.tf32 > r.fp32 THEN r.tf32 ELSE r.fp16 END / r.fp32) AS times, bool_and(r.tf32 > r.fp32) IS TRUE AS by_tf32
    FROM ranks AS k LEFT JOIN rates AS r USING (gpu_name)
    HAVING count(r.fp32) = count(k.rank)
),
named AS (
    SELECT name, {{ names('fp32_products', 'name') }} AS kind
    FROM (SELECT DISTINCT name FROM gpu_ops WHERE class = 'gemm')
    -- factors of 16 bits that are summed in fp32
    WHERE {{ names('narrow_kernels', 'name') }} IS NULL
),
products AS (
    SELECT sum(o.duration_ns) / any_value(s.windows) AS time_ns, list_sort(list(DISTINCT n.kind)) AS patterns
    FROM gpu_ops AS o JOIN named AS n USING (name) CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE o.class = 'gemm' AND n.kind <> 'tf32' AND tw_counts(o.rank, o.step)
)
SELECT
    format('{} multiplies in fp32 off the tensor cores', s.each_unit) AS title,
    p.time_ns * (1 - 1 / f.times) AS cost_ns,
    array_to_string([format('class=gemm name={} times={}', pattern, round(1 / f.times, 4)) FOR pattern IN p.patterns], '; ') AS scenario,
    format('Matrix products in fp32 that leave the tensor cores unused run for {} per {}. The peak of {} is {} times as high',
        tw_time(p.time_ns), s.unit, rate, tw_digits(f.times))
        || CASE WHEN g.has_math_attention THEN '. Attention runs by its math backend, operator by operator' ELSE '' END AS evidence,
    CASE WHEN g.has_math_attention THEN 'Fused attention (flash, memory-efficient) where head size, mask and type allow. ' ELSE '' END
    || CASE WHEN f.by_tf32 AND g.is_torch THEN 'torch.set_float32_matmul_precision(''high'') for TF32, or bf16 autocast' WHEN f.by_tf32 THEN 'TF32 or 16 bits'
        WHEN g.is_torch THEN 'fp16 autocast' ELSE '16 bits' END
    || ', if the model bears it. The cost is the limit of ' || rate || ', at its peak' AS advice
FROM products AS p CROSS JOIN faster AS f CROSS JOIN {{ ref('mean_step') }} AS s CROSS JOIN {{ ref('program') }} AS g
CROSS JOIN LATERAL (SELECT CASE WHEN f.by_tf32 THEN 'TF32' ELSE 'fp16' END AS rate)
WHERE p.time_ns * (1 - 1 / f.times) >= {{ param('min_share') }} * s.step_ns AND NOT EXISTS (FROM named WHERE kind = 'tf32')
