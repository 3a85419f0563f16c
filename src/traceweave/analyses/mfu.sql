-- analysis: mfu | how much of the GPUs' peak the model's arithmetic used: model FLOPs utilization of every step, rank and the run
-- answers: What share of what the GPUs can compute went into the model, and how much was spent on recomputing activations?
-- topic: compute
-- grain: one row per rank and step; step NULL: all steps of a rank; rank NULL: the whole run
-- param: window
-- param: model_flops DOUBLE = NULL | FLOPs of the model in one step on one rank, forward and backward, for instance 6 * parameters * tokens of the step / ranks (of the whole window where there are no steps); NULL: counted from shapes
-- param: dtype VARCHAR = 'auto' | data type whose peak is used
-- choice: dtype 'auto' | the one that most of the run's FLOPs are in
-- choice: dtype 'fp64' | double
-- choice: dtype 'fp32' | single, without tensor cores
-- choice: dtype 'tf32' | single, multiplied in tensor cores
-- choice: dtype 'fp16' | half
-- choice: dtype 'bf16' | bfloat16
-- choice: dtype 'fp8' | 8 bits
-- choice: dtype 'fp4' | 4 bits
-- choice: dtype 'int8' | integers of 8 bits
-- param: peak_tflops DOUBLE = NULL | the GPU's peak rate, TFLOP/s; NULL: from the list of GPUs (docs/concepts.md)
-- column: rank INTEGER | global rank; NULL: all ranks
-- column: step BIGINT | step number; NULL: all steps of the rank, or its whole span if it has none
-- column: windows BIGINT | windows that are summed: 1 for a step
-- column: window_ns BIGINT | their time, summed over ranks too
-- column: gpu_name VARCHAR | product name of the GPU; NULL if unknown or several
-- column: dtype VARCHAR | data type of the peak
-- column: peak_tflops DOUBLE | dense peak of one GPU, TFLOP/s; NULL if several differ
-- column: source VARCHAR | where model_flops comes from: 'shapes' or 'parameter'
-- column: model_flops DOUBLE | FLOPs of the model, forward and backward
-- column: flops DOUBLE | FLOPs that were computed, where formulas cover them: model, recomputation and optimizer; NULL without shapes
-- column: recomputed_flops DOUBLE | of these, forward operators that ran again in the backward (activation checkpointing); NULL if that cannot be determined
-- column: optimizer_flops DOUBLE | of these, products inside Optimizer.step, as Muon and Shampoo have
-- column: model_tflops DOUBLE | model_flops / window_ns: TFLOP/s per GPU
-- column: mfu DOUBLE | model FLOPs utilization, model_tflops / peak_tflops, 0 to 1
-- column: hfu DOUBLE | hardware FLOPs utilization: flops in place of model_flops
-- column: covered_share DOUBLE | compute kernel time in operators with a formula / all compute kernel time, 0 to 1; the rest is in no FLOP count
-- column: note VARCHAR | why a value is NULL or less than it says; NULL if there is nothing to say
-- main: rank, step, window_ns, model_flops, model_tflops, mfu, hfu, covered_share, note
-- order: rank NULLS FIRST, step NULLS FIRST
-- caveat: from shapes, mfu is what formulas cover: a model whose attention runs in kernels without one has more (covered_share, and the flops analysis, show it).
-- caveat: torch's formulas count attention without regard to masks, and the scores that a fused attention backward computes again as model FLOPs; 6 * parameters * tokens has neither.
-- caveat: the rows of a rank and of the run are sums of FLOPs over sums of peak times time, not means of the steps.
WITH windows AS MATERIALIZED (
    -- a GPU that the file names, and that ran nothing, has no part in the arithmetic
    SELECT w.rank, w.step, w.end_ns - w.start_ns AS window_ns, w.note, CASE WHEN w.timeline = 'gpu' THEN r.gpu_name END AS gpu_name
    FROM tw_windows({{ param('window') }}) AS w LEFT JOIN ranks AS r USING (rank)
    WHERE w.end_ns > w.start_ns
),
work AS MATERIALIZED (
    SELECT * FROM {{ ref('op_work', per='step') }}
),
main_dtype AS (
    SELECT rank, arg_max(dtype, (flops, dtype)) AS dtype
    FROM (SELECT rank, dtype, sum(calls::HUGEINT * flops) AS flops FROM work WHERE dtype IS NOT NULL AND flops > 0 GROUP BY rank, dtype)
    GROUP BY rank
),
chosen AS (
    SELECT
        r.rank,
        CASE WHEN {{ param('dtype') }} = 'auto' THEN d.dtype ELSE {{ param('dtype') }} END AS dtype,
        coalesce({{ param('peak_tflops') }}, p.peak_tflops) AS peak_tflops
    FROM (SELECT DISTINCT rank, gpu_name FROM windows) AS r
    LEFT JOIN main_dtype AS d USING (rank)
    LEFT JOIN tw_gpu_peaks AS p
        ON p.gpu_name = r.gpu_name AND p.dtype = CASE WHEN {{ param('dtype') }} = 'auto' THEN d.dtype ELSE {{ param('dtype') }} END
),
-- what ran in each step, and on each rank altogether
sums AS (
    SELECT
        rank,
        step,
        grouping(step) = 1 AS all_steps,
        sum(calls::HUGEINT * flops) AS flops,
        sum(CASE WHEN kind = 'recomputed' THEN calls::HUGEINT * flops END) AS recomputed_flops,
        sum(CASE WHEN kind = 'optimizer' THEN calls::HUGEINT * flops END) AS optimizer_flops,
        coalesce(bool_or(opaque), FALSE) AS opaque,
        sum(CASE WHEN flops IS NOT NULL THEN device_ns END) AS covered_ns,
        sum(device_ns) AS device_ns,
        arg_max(reason, coalesce(device_ns, 0)) FILTER (reason IS NOT NULL) AS reason
    FROM work
    GROUP BY GROUPING SETS ((rank, step), (rank))
),
measured AS (
    SELECT
        w.rank,
        w.step,
        w.window_ns,
        w.gpu_name,
        w.note,
        c.dtype,
        c.peak_tflops,
        coalesce({{ param('model_flops') }}, p.flops - coalesce(p.recomputed_flops, 0) - coalesce(p.optimizer_flops, 0)) AS model_flops,
        p.flops,
        CASE WHEN p.flops IS NOT NULL THEN coalesce(p.recomputed_flops, 0) END AS recomputed_flops,
        CASE WHEN p.flops IS NOT NULL THEN coalesce(p.optimizer_flops, 0) END AS optimizer_flops,
        coalesce(p.opaque, FALSE) AS opaque,
        CASE WHEN p.flops IS NOT NULL THEN p.covered_ns END AS covered_ns,
        p.device_ns,
        p.reason
    FROM windows AS w
    LEFT JOIN chosen AS c USING (rank)
    LEFT JOIN sums AS p
        ON p.rank = w.rank AND p.step IS NOT DISTINCT FROM w.step AND p.all_steps = (w.step IS NULL)
),
-- a sum over windows is NULL if one of them is
summed AS (
    SELECT
        rank,
        step,
        count(*) AS windows,
        CAST(sum(window_ns) AS BIGINT) AS window_ns,
        CASE WHEN count(DISTINCT gpu_name) = 1 AND count(gpu_name) = count(*) THEN min(gpu_name) END AS gpu_name,
        CASE WHEN count(DISTINCT dtype) = 1 AND count(dtype) = count(*) THEN min(dtype) END AS dtype,
        CASE WHEN count(DISTINCT peak_tflops) = 1 AND count(peak_tflops) = count(*) THEN min(peak_tflops) END AS peak_tflops,
        CASE WHEN count(peak_tflops) = count(*) THEN sum(peak_tflops * window_ns) END AS peak_work,
        CASE WHEN count(model_flops) = count(*) THEN CAST(sum(model_flops) AS DOUBLE) END AS model_flops,
        CASE WHEN count(flops) = count(*) THEN CAST(sum(flops) AS DOUBLE) END AS flops,
        CASE WHEN count(flops) = count(*) AND NOT bool_or(opaque) THEN CAST(sum(recomputed_flops) AS DOUBLE) END AS recomputed_flops,
        CASE WHEN count(flops) = count(*) THEN CAST(sum(optimizer_flops) AS DOUBLE) END AS optimizer_flops,
        bool_or(opaque) AS opaque,
        count(flops) AS counted,
        tw_ratio(CAST(sum(covered_ns) AS DOUBLE), CAST(sum(device_ns) AS DOUBLE)) AS covered_share,
        min(note) AS note,
        arg_max(reason, coalesce(device_ns, 0)) FILTER (reason IS NOT NULL) AS reason
    FROM measured
    GROUP BY GROUPING SETS ((rank, step), (rank), ())
    -- a rank without steps has one window, which is all of it; no window at all is no row
    HAVING count(*) > 0 AND NOT (grouping(rank) = 0 AND grouping(step) = 1 AND min(step) IS NULL)
)
SELECT
    rank,
    step,
    windows,
    window_ns,
    gpu_name,
    dtype,
    peak_tflops,
    CASE WHEN {{ param('model_flops') }} IS NOT NULL THEN 'parameter' WHEN model_flops IS NOT NULL THEN 'shapes' END AS source,
    model_flops,
    flops,
    recomputed_flops,
    optimizer_flops,
    model_flops / window_ns / 1000 AS model_tflops,
    model_flops / 1000 / nullif(peak_work, 0) AS mfu,
    CASE WHEN {{ param('model_flops') }} IS NOT NULL OR NOT opaque THEN flops / 1000 / nullif(peak_work, 0) END AS hfu,
    covered_share,
    nullif(concat_ws('; ',
        note,
        CASE WHEN counted < windows THEN coalesce(reason, 'no operator with a formula has recorded shapes') END,
        CASE WHEN counted = windows AND opaque THEN 'compiled backward: what it recomputes counts as model FLOPs, hence no hfu' END,
        CASE WHEN peak_work IS NULL AND dtype IS NULL AND {{ param('dtype') }} = 'auto' THEN 'data type not known: set dtype or peak_tflops'
             WHEN peak_work IS NULL THEN 'no peak of ' || coalesce(dtype, {{ param('dtype') }}) || ' known for ' || coalesce(gpu_name, 'this device') || ': set peak_tflops' END
    ), '') AS note
FROM summed
ORDER BY rank NULLS FIRST, step NULLS FIRST
