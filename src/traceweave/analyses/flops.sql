-- analysis: flops | floating point operations by operator, the rate reached, and the rate possible
-- answers: Which operators do the arithmetic, how close do they come to what the GPU can do, and does compute or memory limit them?
-- topic: compute
-- grain: one row per GPU model, operator (or operator and shapes, or class of kernel) and data type; the last rows are kernels that no formula covers, by class
-- param: per VARCHAR = 'op' | what calls are grouped by
-- choice: per 'op' | the operator
-- choice: per 'shape' | the operator and the shapes of its arguments
-- choice: per 'class' | the class of its longest kernel: gemm, attention, conv ...
-- param: rank BIGINT = NULL | count this rank only; NULL: all
-- param: step BIGINT = NULL | count operators that began in this step only; NULL: all
-- param: peak_tflops DOUBLE = NULL | the GPU's peak rate for every data type, TFLOP/s; NULL: from the list of GPUs (docs/concepts.md)
-- param: peak_gbps DOUBLE = NULL | the GPU's memory bandwidth, decimal GB/s; NULL: from the list of GPUs
-- column: gpu_name VARCHAR | product name of the GPU; NULL if unknown
-- column: op VARCHAR | operator; NULL: per = 'class', or kernels in no operator with a formula
-- column: dims VARCHAR | per = 'shape': shapes of its arguments, JSON
-- column: class VARCHAR | kind of work of the operator's longest kernel; NULL if there are several, or no kernels
-- column: dtype VARCHAR | data type of the factors: fp64, fp32, tf32, fp16, bf16, fp8 ...; NULL if not counted or of no listed type
-- column: calls BIGINT | calls of the operator
-- column: kernels BIGINT | GPU ops that these launched; NULL on a rank without a GPU
-- column: device_ns BIGINT | sum of the durations of those that are compute
-- column: share DOUBLE | device_ns / all compute kernel time, 0 to 1
-- column: flops DOUBLE | floating point operations, a multiplication and an addition counted as two; exact up to 2^53; NULL if not counted
-- column: bytes DOUBLE | size of all inputs and outputs, each touched once: a lower bound of the memory traffic; NULL if not known of every call
-- column: tflops DOUBLE | flops / device_ns, TFLOP/s
-- column: intensity DOUBLE | flops / bytes, FLOP per byte: an upper bound, as bytes is a lower one
-- column: peak_tflops DOUBLE | the GPU's dense peak for the data type, TFLOP/s
-- column: peak_gbps DOUBLE | the GPU's memory bandwidth, decimal GB/s
-- column: roof_tflops DOUBLE | the roofline limit: the smaller of peak_tflops and intensity * peak_gbps
-- column: peak_fraction DOUBLE | tflops / peak_tflops
-- column: roof_fraction DOUBLE | tflops / roof_tflops
-- column: bound VARCHAR | which of the two peaks sets the roof: 'compute' or 'memory'
-- column: note VARCHAR | why something is NULL; NULL if there is nothing to say
-- main: gpu_name, op, dims, dtype, calls, device_ns, flops, tflops, peak_fraction, bound, note
-- order: flops DESC NULLS LAST, device_ns DESC NULLS LAST, gpu_name, op, dims, class, dtype
-- caveat: products only (matrix products, convolutions, attention), as torch counts them; norms, activations, optimizers and Triton kernels without a count of their own are the rows without FLOPs.
-- caveat: attention counts as if nothing were masked: a causal mask halves the work that is needed, and some kernels skip it, so that a rate above the peak is possible.
-- caveat: an operator is counted once, outermost, with all kernels launched in its time; kernels of a CUDA graph belong to no operator.
WITH work AS MATERIALIZED (
    SELECT
        r.gpu_name,
        CASE WHEN {{ param('per') }} <> 'class' THEN w.op END AS op,
        CASE WHEN {{ param('per') }} = 'shape' THEN w.dims END AS dims,
        w.class,
        w.dtype,
        w.reason,
        w.flops IS NOT NULL AS counted,
        w.calls,
        w.kernels,
        w.device_ns,
        w.calls::HUGEINT * w.flops AS flops,
        w.calls::HUGEINT * w.bytes AS bytes
    FROM {{ ref('op_work', rank=param('rank'), step=param('step'), per='step') }} AS w
    LEFT JOIN ranks AS r USING (rank)
),
summed AS (
    SELECT
        gpu_name,
        op,
        dims,
        CASE WHEN min(class) = max(class) THEN min(class) END AS class,
        dtype,
        reason,
        counted,
        CAST(sum(calls) AS BIGINT) AS calls,
        CAST(sum(kernels) AS BIGINT) AS kernels,
        CAST(sum(device_ns) AS BIGINT) AS device_ns,
        CAST(sum(flops) AS DOUBLE) AS flops,
        CASE WHEN count(bytes) = count(*) THEN CAST(sum(bytes) AS DOUBLE) END AS bytes
    FROM work
    -- kernels without FLOPs are told apart by their class
    GROUP BY gpu_name, op, dims, dtype, reason, counted, CASE WHEN {{ param('per') }} = 'class' OR op IS NULL THEN class END
),
rated AS (
    SELECT
        s.*,
        coalesce({{ param('peak_tflops') }}, CASE WHEN s.counted THEN p.peak_tflops END) AS peak_tflops,
        coalesce({{ param('peak_gbps') }}, CASE WHEN s.counted THEN p.peak_gbps END) AS peak_gbps,
        -- FLOP per ns is GFLOP/s
        tw_ratio(s.flops, s.device_ns) / 1000 AS tflops,
        tw_ratio(s.flops, s.bytes) AS intensity
    FROM summed AS s
    LEFT JOIN tw_gpu_peaks AS p ON p.gpu_name = s.gpu_name AND p.dtype = s.dtype
),
roofed AS (
    SELECT
        *,
        CASE WHEN counted THEN
            CASE WHEN intensity * peak_gbps / 1000 < peak_tflops THEN intensity * peak_gbps / 1000
                 WHEN intensity * peak_gbps IS NOT NULL THEN peak_tflops END
        END AS roof_tflops
    FROM rated
)
SELECT
    gpu_name,
    op,
    dims,
    class,
    dtype,
    calls,
    kernels,
    device_ns,
    tw_ratio(device_ns, CAST(sum(device_ns) OVER () AS BIGINT)) AS share,
    flops,
    bytes,
    tflops,
    intensity,
    CASE WHEN counted THEN peak_tflops END AS peak_tflops,
    CASE WHEN counted THEN peak_gbps END AS peak_gbps,
    roof_tflops,
    CASE WHEN counted THEN tw_ratio(tflops, peak_tflops) END AS peak_fraction,
    tw_ratio(tflops, roof_tflops) AS roof_fraction,
    CASE WHEN roof_tflops < peak_tflops THEN 'memory' WHEN roof_tflops IS NOT NULL THEN 'compute' END AS bound,
    CASE
        WHEN NOT counted THEN coalesce(reason, 'in no operator with a formula: not counted')
        ELSE nullif(concat_ws('; ',
            CASE WHEN kernels IS NULL THEN 'no GPU ops: no rate' END,
            CASE WHEN peak_tflops IS NULL THEN
                'no peak of ' || coalesce(dtype, 'this type') || ' known for ' || coalesce(gpu_name, 'this device') || ': set peak_tflops'
            END,
            CASE WHEN peak_tflops IS NOT NULL AND peak_gbps IS NULL THEN
                'memory bandwidth of ' || coalesce(gpu_name, 'this device') || ' not known: set peak_gbps'
            END,
            CASE WHEN tflops > peak_tflops THEN 'above the peak: less was computed than counted, or the peak is another one' END
        ), '')
    END AS note
FROM roofed
ORDER BY flops DESC NULLS LAST, device_ns DESC NULLS LAST, gpu_name, op, dims, class, dtype
