-- analysis: op_work | what every operator computed, and the GPU time it took
-- answers: How much arithmetic did each call do, for what, and how long did the GPU work on it?
-- topic: compute
-- grain: one row per operator that is counted, or per rank, step and sort of call; beside these one row per rank, step, operator without a usable formula (op is NULL: in none) and class, for the compute kernels of all others
-- reads: gpu_ops, host_ops
-- needs: op_flops
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
-- column: dtype VARCHAR | type of the numbers that are multiplied: fp64, fp32, tf32, fp16, bf16, fp8 ...; NULL if not counted or of no listed type
-- column: class VARCHAR | sort of work of its longest compute kernel
-- column: kind VARCHAR | what the work is for: 'model', 'recomputed' (a forward operator that runs again in the backward, activation checkpointing) or 'optimizer' (inside Optimizer.step); NULL if not counted
-- column: opaque BOOLEAN | in a compiled backward, in which recomputation cannot be told from backward work
-- column: calls BIGINT | calls in this row
-- column: kernels BIGINT | GPU ops launched in them; NULL on a rank without a GPU
-- column: device_ns BIGINT | sum of the durations of those that are compute
-- column: flops BIGINT | floating point operations of one call, a multiplication and an addition counted as two; NULL if not counted
-- column: bytes BIGINT | size of all inputs and outputs of one call, each touched once
-- column: reason VARCHAR | why flops is NULL; NULL also for kernels of operators without a formula
-- order: rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason
-- caveat: of counted operators inside each other the outermost counts, with all GPU ops launched in its time on its thread.
-- caveat: an operator that launched nothing, on a rank with a GPU, is left out: a checkpoint that has recomputed all it needs stops in an operator, before it computes.
-- caveat: recomputation is told by autograd: an operator recorded for a backward while a backward runs, whose like ran in the step's forward. Gradients of gradients (create_graph=True) look the same where shapes are.
WITH
-- numbers in place of names throughout: what is sorted here is as many as there are operators and kernels
known AS MATERIALIZED (
    SELECT rank, thread, step, depth, start_ns, end_ns, recorded, op_id, signature, usable
    FROM tw_op_flops
    WHERE ($rank IS NULL OR rank = $rank) AND ($step IS NULL OR step = $step)
),
kinds AS MATERIALIZED (
    SELECT row_number() OVER () AS kind_id, name, class, regexp_matches(name, '(?i)tf32|s1688') AS is_tf32
    FROM (SELECT DISTINCT name, class FROM gpu_ops)
),
-- one number for whose kernel it is and of what sort
gpu AS (
    SELECT
        g.launch_op_id,
        (g.rank::BIGINT << 32) + (k.kind_id << 1) + (g.category = 'compute')::BIGINT AS sort,
        coalesce(g.step, -9223372036854775807) AS step,
        g.duration_ns
    FROM gpu_ops AS g JOIN kinds AS k USING (name, class)
    WHERE ($rank IS NULL OR g.rank = $rank) AND ($step IS NULL OR g.step = $step)
),
launches AS (
    SELECT
        thread, list(coalesce(called_ns, 0)) AS called, list(duration_ns) AS durations, list(sort) AS sorts, list(step) AS steps
    FROM (
        SELECT c.thread, c.called_ns, g.duration_ns, g.sort, g.step
        FROM gpu AS g
        LEFT JOIN (
            SELECT op_id AS launch_op_id, hash(rank, pid, tid) AS thread, start_local_ns AS called_ns
            FROM host_ops
            WHERE kind IN ('runtime', 'driver')
        ) AS c USING (launch_op_id)
    )
    GROUP BY thread
),
ops AS (
    SELECT
        thread, list(start_ns) AS starts, list(end_ns) AS ends, list(coalesce(depth, 2147483647)) AS depths, list(usable::UTINYINT) AS usable,
        list(op_id) AS ids, list(signature) AS signatures, list(rank) AS ranks, list(step) AS steps, list(recorded) AS recorded
    FROM known
    GROUP BY thread
),
-- 1: backward, 2: compiled, so that recomputation cannot be told, 4: optimizer
ranges AS (
    SELECT
        hash(rank, pid, tid) AS thread,
        list(start_local_ns) AS starts,
        list(start_local_ns + duration_ns) AS ends,
        list(CASE WHEN kind <> 'op' THEN 4::UTINYINT WHEN contains(name, 'Compiled') THEN 3 ELSE 1 END) AS sorts
    FROM host_ops
    WHERE (kind = 'op' AND starts_with(name, 'autograd::engine::evaluate_function: '))
        OR (kind = 'annotation' AND starts_with(name, 'Optimizer.step#'))
    GROUP BY thread
),
-- which operators are in others and in ranges, and what was launched in which (sweeps)
swept AS MATERIALIZED (
    SELECT
        thread,
        o.ids, o.signatures, o.ranks, o.steps, o.recorded, o.starts, o.depths,
        sweep_operators(
            coalesce(o.starts, []::BIGINT[]), coalesce(o.ends, []::BIGINT[]), coalesce(o.depths, []::INTEGER[]), coalesce(o.usable, []::UTINYINT[]),
            coalesce(r.starts, []::BIGINT[]), coalesce(r.ends, []::BIGINT[]), coalesce(r.sorts, []::UTINYINT[]),
            coalesce(l.called, []::BIGINT[]), coalesce(l.durations, []::BIGINT[]), coalesce(l.sorts, []::BIGINT[]), coalesce(l.steps, []::BIGINT[])
        ) AS found
    FROM ops AS o FULL JOIN launches AS l USING (thread) LEFT JOIN ranges AS r USING (thread)
),
-- A counted operator inside a counted one does the same work once more removed: the outermost stands for it. One with
-- a formula that its arguments do not fit is of interest where it is not inside another.
placed AS MATERIALIZED (
    SELECT * REPLACE (nullif(kernels, 0) AS kernels, nullif(device_ns, -1) AS device_ns, nullif(kind_id, -1) AS kind_id)
    FROM (
        SELECT
            thread,
            unnest(ids) AS op_id,
            unnest(signatures) AS signature,
            unnest(ranks) AS rank,
            unnest(steps) AS step,
            unnest(recorded) AS recorded,
            unnest(starts) AS start_ns,
            unnest(depths) AS depth,
            unnest(found.place) AS place,
            unnest(found.kernels) AS kernels,
            unnest(found.device_ns) AS device_ns,
            unnest(found.kind) AS kind_id
        FROM swept
    )
    WHERE place > 0
),
-- Autocast converts the arguments and calls the same operator again: the innermost has the types that are computed with.
converted AS (
    SELECT o.op_id, arg_max(i.signature, i.depth) AS signature
    FROM (
        SELECT n.*, w.name FROM placed AS n JOIN tw_call_work AS w USING (signature) WHERE n.place = 32
    ) AS i
    ASOF JOIN (
        SELECT n.*, w.name FROM placed AS n JOIN tw_call_work AS w USING (signature) WHERE n.place & 3 = 3
    ) AS o ON o.thread = i.thread AND i.start_ns >= o.start_ns
    WHERE i.name = o.name
    GROUP BY o.op_id
),
forward AS (
    SELECT DISTINCT rank, step, signature FROM placed WHERE place & 3 = 3 AND place & 4 = 0
),
-- in no operator that is counted: launched outside any, or by no call that is in the trace
others AS (
    SELECT (sort >> 32)::INTEGER AS rank, nullif(step, -9223372036854775807) AS step, (sort >> 1) & 2147483647 AS kind_id, duration_ns
    FROM (
        SELECT unnest(found.sort) AS sort, unnest(found.step) AS step, unnest(found.duration_ns) AS duration_ns FROM swept
    )
),
linked AS (
    SELECT DISTINCT unnest(found.ranks)::INTEGER AS rank FROM swept WHERE thread IS NOT NULL
),
counted AS (
    SELECT
        p.rank,
        p.step,
        CASE WHEN $per = 'call' THEN p.op_id END AS op_id,
        p.signature,
        coalesce(c.signature, p.signature) AS computed_as,
        k.class,
        coalesce(k.is_tf32, false) AS is_tf32,
        CASE
            WHEN p.place & 16 > 0 THEN 'optimizer'
            -- recorded for autograd while a backward runs, and called in the forward before: a checkpoint is recomputed
            WHEN p.place & 4 > 0 AND p.recorded AND w.signature IS NOT NULL THEN 'recomputed'
            ELSE 'model'
        END AS kind,
        p.place & 8 > 0 AS opaque,
        count(*) AS calls,
        CAST(sum(p.kernels) AS BIGINT) AS kernels,
        CAST(sum(p.device_ns) AS BIGINT) AS device_ns
    FROM placed AS p
    LEFT JOIN kinds AS k USING (kind_id)
    LEFT JOIN converted AS c ON c.op_id = p.op_id
    LEFT JOIN forward AS w ON w.rank IS NOT DISTINCT FROM p.rank AND w.step IS NOT DISTINCT FROM p.step AND w.signature = p.signature
    -- an operator that launched nothing on a rank with a GPU did nothing: a checkpoint that has all it needs stops in the
    -- last operator, before it computes
    WHERE p.place & 3 = 3 AND (p.kernels IS NOT NULL OR p.rank IS NULL OR p.rank NOT IN (SELECT rank FROM linked))
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
    count(*) AS calls,
    CAST(sum(p.kernels) AS BIGINT) AS kernels,
    CAST(sum(p.device_ns) AS BIGINT) AS device_ns,
    NULL AS flops,
    NULL AS bytes,
    f.reason
FROM placed AS p
JOIN tw_call_work AS f USING (signature)
LEFT JOIN kinds AS k USING (kind_id)
WHERE p.place & 3 = 1 AND (p.kernels IS NOT NULL OR p.rank IS NULL OR p.rank NOT IN (SELECT rank FROM linked))
GROUP BY p.rank, p.step, f.name, f.reason, k.class
UNION ALL
SELECT
    rank, step, NULL AS op_id, NULL AS op, NULL AS dims, NULL AS dtype, class, NULL AS kind, NULL AS opaque, NULL AS calls,
    count(*) AS kernels, CAST(sum(duration_ns) AS BIGINT) AS device_ns, NULL AS flops, NULL AS bytes, NULL AS reason
FROM others JOIN kinds USING (kind_id)
GROUP BY rank, step, class
ORDER BY rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason
