-- analysis: op_work | what every operator computed, and the GPU time it took
-- answers: How much arithmetic did each call do, for what, and how long did the GPU work on it?
-- topic: compute
-- grain: one row per operator that is counted, or per rank, step and kind of call; beside these one row per rank, step, operator without a usable formula (op is NULL: in none) and class, for the compute kernels of all others
-- param: rank BIGINT = NULL | this rank only; NULL: all
-- param: step BIGINT = NULL | operators that began, and kernels launched, in this step only; NULL: all
-- param: per VARCHAR = 'call' | what a row of counted operators covers
-- choice: per 'call' | one operator
-- choice: per 'step' | those of a rank and step that are equal in everything but op_id and time; op_id is NULL
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it began; NULL outside any step
-- column: op_id BIGINT | the operator in host_ops; NULL in a row of several
-- column: op VARCHAR | its name
-- column: dims VARCHAR | shapes of its arguments, JSON
-- column: dtype VARCHAR | data type of the factors: fp64, fp32, tf32, fp16, bf16, fp8 ...; NULL if not counted or of no listed type
-- column: class VARCHAR | kind of work of its longest compute kernel
-- column: kind VARCHAR | what the work is for: 'model', 'recomputed' (a forward operator that runs again in the backward, activation checkpointing) or 'optimizer' (inside Optimizer.step); NULL if not counted
-- column: opaque BOOLEAN | in a compiled backward, where recomputation cannot be distinguished from backward work
-- column: calls BIGINT | calls in this row
-- column: kernels BIGINT | GPU ops launched in them; NULL on a rank without a GPU
-- column: device_ns BIGINT | sum of the durations of those that are compute
-- column: flops BIGINT | floating point operations of one call, a multiplication and an addition counted as two; NULL if not counted
-- column: bytes BIGINT | size of all inputs and outputs of one call, each touched once
-- column: reason VARCHAR | why flops is NULL; NULL also for kernels of operators without a formula
-- main: rank, step, op, dims, dtype, calls, device_ns, flops, bytes, reason
-- order: rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason, dims, dtype, kind, device_ns
-- caveat: of nested counted operators the outermost counts, with all GPU ops launched during it on its thread.
-- caveat: an operator that launched nothing, on a rank with a GPU, is left out: a checkpoint that has recomputed all it needs stops in an operator, before it computes.
-- caveat: recomputation is detected from autograd: an operator recorded for a backward while a backward runs, of which an equal one ran in the step's forward. Gradients of gradients (create_graph=True) look the same where shapes are.
WITH
-- A counted operator inside a counted one does the same work once more removed: the outermost stands for it. One with
-- a formula that its arguments do not fit is of interest where it is not inside another. Summed up before all else: they
-- are as many as there are operators (placed_ops).
placed AS MATERIALIZED (
    SELECT
        rank, step, CASE WHEN {{ param('per') }} = 'call' THEN op_id END AS op_id, signature, computed_as, recorded, place, class_id, is_tf32,
        -- an operator that launched nothing on a rank with a GPU did nothing: a checkpoint that has all it needs stops in
        -- the last operator, before it computes
        kernels IS NOT NULL OR rank IS NULL OR rank NOT IN (SELECT rank FROM tw_launching_ranks WHERE rank IS NOT NULL) AS did_work,
        count(*) AS calls,
        CAST(sum(kernels) AS BIGINT) AS kernels,
        CAST(sum(device_ns) AS BIGINT) AS device_ns
    FROM tw_placed_ops
    WHERE ({{ param('rank') }} IS NULL OR rank = {{ param('rank') }}) AND ({{ param('step') }} IS NULL OR step = {{ param('step') }})
    GROUP BY ALL
),
forward AS (
    SELECT DISTINCT rank, step, signature FROM placed WHERE place & 3 = 3 AND place & 4 = 0
),
counted AS (
    SELECT
        p.rank,
        p.step,
        p.op_id,
        p.signature,
        p.computed_as,
        k.class,
        p.is_tf32,
        CASE
            WHEN p.place & 16 > 0 THEN 'optimizer'
            -- recorded for autograd while a backward runs, and called in the forward before: a checkpoint is recomputed
            WHEN p.place & 4 > 0 AND p.recorded AND w.signature IS NOT NULL THEN 'recomputed'
            ELSE 'model'
        END AS kind,
        p.place & 8 > 0 AS opaque,
        CAST(sum(p.calls) AS BIGINT) AS calls,
        CAST(sum(p.kernels) AS BIGINT) AS kernels,
        CAST(sum(p.device_ns) AS BIGINT) AS device_ns
    FROM placed AS p
    LEFT JOIN tw_kernel_classes AS k USING (class_id)
    LEFT JOIN forward AS w ON w.rank IS NOT DISTINCT FROM p.rank AND w.step IS NOT DISTINCT FROM p.step AND w.signature = p.signature
    WHERE p.place & 3 = 3 AND p.did_work
    GROUP BY ALL
)
SELECT
    c.rank,
    c.step,
    c.op_id,
    f.name AS op,
    f.dims,
    -- what the trace does not say of an fp32 product is whether it ran as TF32: the kernel's name does
    CASE WHEN t.dtype = 'fp32' AND c.is_tf32 THEN 'tf32' ELSE t.dtype END AS dtype,
    c.class,
    c.kind,
    c.opaque,
    c.calls,
    c.kernels,
    c.device_ns,
    f.flops,
    t.bytes,
    NULL::VARCHAR AS reason
FROM counted AS c
JOIN tw_call_work AS f ON f.signature = c.signature
JOIN tw_call_work AS t ON t.signature = c.computed_as
UNION ALL
SELECT
    p.rank,
    p.step,
    NULL AS op_id,
    f.name AS op,
    NULL AS dims,
    NULL AS dtype,
    k.class,
    NULL AS kind,
    NULL AS opaque,
    CAST(sum(p.calls) AS BIGINT) AS calls,
    CAST(sum(p.kernels) AS BIGINT) AS kernels,
    CAST(sum(p.device_ns) AS BIGINT) AS device_ns,
    NULL AS flops,
    NULL AS bytes,
    f.reason
FROM placed AS p
JOIN tw_call_work AS f USING (signature)
LEFT JOIN tw_kernel_classes AS k USING (class_id)
WHERE p.place & 3 = 1 AND p.did_work
GROUP BY p.rank, p.step, f.name, f.reason, k.class
UNION ALL
SELECT
    rank, step, NULL AS op_id, NULL AS op, NULL AS dims, NULL AS dtype, class, NULL AS kind, NULL AS opaque, NULL AS calls,
    CAST(sum(kernels) AS BIGINT) AS kernels, CAST(sum(device_ns) AS BIGINT) AS device_ns, NULL AS flops, NULL AS bytes, NULL AS reason
FROM tw_other_kernels JOIN tw_kernel_classes USING (class_id)
WHERE ({{ param('rank') }} IS NULL OR rank = {{ param('rank') }}) AND ({{ param('step') }} IS NULL OR step = {{ param('step') }})
GROUP BY rank, step, class
ORDER BY rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason, dims, dtype, kind, device_ns
