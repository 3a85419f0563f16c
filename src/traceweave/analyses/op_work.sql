-- analysis: op_work | what every operator computed, and the GPU time it took
-- answers: How much arithmetic did each call do, for what, and how long did the GPU work on it?
-- topic: compute
-- grain: one row per operator that is counted; beside these one row per rank, step, operator without a usable formula (op is NULL: in none) and class, for the compute kernels of all others
-- reads: gpu_ops, host_ops
-- needs: op_flops
-- param: rank BIGINT = NULL | this rank only; NULL: all
-- param: step BIGINT = NULL | operators that began, and kernels launched, in this step only; NULL: all
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
-- column: flops BIGINT | floating point operations, a multiplication and an addition counted as two; NULL if not counted
-- column: bytes BIGINT | size of all inputs and outputs, each touched once
-- column: reason VARCHAR | why flops is NULL; NULL also for kernels of operators without a formula
-- order: rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason
-- caveat: of counted operators inside each other the outermost counts, with all GPU ops launched in its time on its thread.
-- caveat: an operator that launched nothing, on a rank with a GPU, is left out: a checkpoint that has recomputed all it needs stops in an operator, before it computes.
-- caveat: recomputation is told by autograd: an operator recorded for a backward while a backward runs, whose like ran in the step's forward. Gradients of gradients (create_graph=True) look the same where shapes are.
WITH
-- numbers in place of names throughout: what is sorted here is as many as there are operators and kernels
known AS MATERIALIZED (
    SELECT
        h.rank, hash(h.rank, h.pid, h.tid) AS thread, h.step, h.depth,
        h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns,
        h.sequence IS NOT NULL AS recorded,
        f.op_id, f.signature, w.flops IS NOT NULL AS usable
    FROM tw_op_flops AS f JOIN tw_call_work AS w USING (signature) JOIN host_ops AS h USING (op_id)
    WHERE ($rank IS NULL OR h.rank = $rank) AND ($step IS NULL OR h.step = $step)
),
-- A counted operator inside a counted one does the same work once more removed: the outermost stands for it. One with
-- a formula that its arguments do not fit is of interest where it is not inside another.
nested AS (
    SELECT
        *,
        coalesce(max(CASE WHEN usable THEN end_ns END) OVER before <= start_ns, true) AS first_usable,
        coalesce(max(end_ns) OVER before <= start_ns, true) AS first
    FROM known
    WINDOW before AS (
        PARTITION BY thread ORDER BY start_ns, end_ns DESC, depth ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
outermost AS MATERIALIZED (
    SELECT * EXCLUDE (first_usable, first) FROM nested WHERE CASE WHEN usable THEN first_usable ELSE first END
),
-- Autocast converts the arguments and calls the same operator again: the innermost has the types that are computed with.
converted AS (
    SELECT o.op_id, arg_max(i.signature, i.depth) AS signature
    FROM (
        SELECT n.*, w.name FROM nested AS n JOIN tw_call_work AS w USING (signature) WHERE n.usable AND NOT n.first_usable
    ) AS i
    ASOF JOIN (
        SELECT n.*, w.name FROM outermost AS n JOIN tw_call_work AS w USING (signature) WHERE n.usable
    ) AS o ON o.thread = i.thread AND i.start_ns >= o.start_ns
    WHERE i.name = o.name
    GROUP BY o.op_id
),
kinds AS MATERIALIZED (
    SELECT row_number() OVER () AS kind_id, name, class FROM (SELECT DISTINCT name, class FROM gpu_ops)
),
-- kept: else DuckDB gives the names of all kernels along until their calls are found
gpu AS MATERIALIZED (
    SELECT g.rank, g.step, k.kind_id, g.category = 'compute' AS is_compute, g.duration_ns, g.launch_op_id
    FROM gpu_ops AS g JOIN kinds AS k USING (name, class)
    WHERE ($rank IS NULL OR g.rank = $rank) AND ($step IS NULL OR g.step = $step)
),
launched AS MATERIALIZED (
    SELECT
        l.rank, l.step, l.kind_id, l.is_compute, l.duration_ns, l.is_linked,
        CASE WHEN l.called_ns <= o.end_ns THEN o.op_id END AS owner_id
    FROM (
        SELECT
            g.rank, g.step, g.kind_id, g.is_compute, g.duration_ns,
            hash(c.rank, c.pid, c.tid) AS thread, c.start_local_ns AS called_ns, c.op_id IS NOT NULL AS is_linked
        FROM gpu AS g LEFT JOIN host_ops AS c ON c.op_id = g.launch_op_id
    ) AS l
    ASOF LEFT JOIN (SELECT thread, start_ns, end_ns, op_id FROM outermost) AS o
        ON o.thread = l.thread AND l.called_ns >= o.start_ns
),
device AS MATERIALIZED (
    SELECT d.*, k.class, k.name AS kernel
    FROM (
        SELECT
            owner_id AS op_id,
            count(*) AS kernels,
            CAST(sum(CASE WHEN is_compute THEN duration_ns END) AS BIGINT) AS device_ns,
            arg_max(kind_id, CASE WHEN is_compute THEN duration_ns END) AS kind_id
        FROM launched
        WHERE owner_id IS NOT NULL
        GROUP BY owner_id
    ) AS d LEFT JOIN kinds AS k USING (kind_id)
),
ranges AS (
    SELECT hash(rank, pid, tid) AS thread, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns, name, kind = 'op' AS backward
    FROM host_ops
    WHERE (kind = 'op' AND starts_with(name, 'autograd::engine::evaluate_function: '))
        OR (kind = 'annotation' AND starts_with(name, 'Optimizer.step#'))
),
-- outermost ranges of a thread: within a kind they do not overlap, so the last that opened tells
outer_ranges AS MATERIALIZED (
    SELECT * FROM (
        SELECT
            *,
            coalesce(max(end_ns) OVER (
                PARTITION BY thread, backward ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) <= start_ns, true) AS first
        FROM ranges
    )
    WHERE first
),
placed AS MATERIALIZED (
    SELECT
        o.*,
        coalesce(o.start_ns < b.end_ns, false) AS in_backward,
        coalesce(o.start_ns < b.end_ns AND contains(b.name, 'Compiled'), false) AS opaque,
        coalesce(o.start_ns < p.end_ns, false) AS in_optimizer
    FROM (SELECT * FROM outermost WHERE usable) AS o
    ASOF LEFT JOIN (SELECT * FROM outer_ranges WHERE backward) AS b ON b.thread = o.thread AND o.start_ns >= b.start_ns
    ASOF LEFT JOIN (SELECT * FROM outer_ranges WHERE NOT backward) AS p ON p.thread = o.thread AND o.start_ns >= p.start_ns
),
forward AS (
    SELECT DISTINCT rank, step, signature FROM placed WHERE NOT in_backward
),
linked AS (
    SELECT DISTINCT rank FROM launched WHERE is_linked
)
SELECT
    p.rank,
    p.step,
    p.op_id,
    f.name AS op,
    f.dims,
    -- what the trace does not say of an fp32 product is whether it ran as TF32: the kernel's name does
    CASE WHEN t.dtype = 'fp32' AND regexp_matches(d.kernel, '(?i)tf32|s1688') THEN 'tf32' ELSE t.dtype END AS dtype,
    d.class,
    CASE
        WHEN p.in_optimizer THEN 'optimizer'
        -- recorded for autograd while a backward runs, and called in the forward before: a checkpoint is recomputed
        WHEN p.in_backward AND p.recorded AND w.signature IS NOT NULL THEN 'recomputed'
        ELSE 'model'
    END AS kind,
    p.opaque,
    1::BIGINT AS calls,
    d.kernels,
    d.device_ns,
    f.flops,
    t.bytes,
    NULL::VARCHAR AS reason
FROM placed AS p
JOIN tw_call_work AS f ON f.signature = p.signature
LEFT JOIN converted AS c ON c.op_id = p.op_id
JOIN tw_call_work AS t ON t.signature = coalesce(c.signature, p.signature)
LEFT JOIN device AS d ON d.op_id = p.op_id
LEFT JOIN forward AS w ON w.rank IS NOT DISTINCT FROM p.rank AND w.step IS NOT DISTINCT FROM p.step AND w.signature = p.signature
-- an operator that launched nothing on a rank with a GPU did nothing: a checkpoint that has all it needs stops in the
-- last operator, before it computes
WHERE d.op_id IS NOT NULL OR p.rank IS NULL OR p.rank NOT IN (SELECT rank FROM linked)
UNION ALL
SELECT
    o.rank,
    o.step,
    NULL AS op_id,
    f.name AS op,
    NULL AS dims,
    NULL AS dtype,
    d.class,
    NULL AS kind,
    NULL AS opaque,
    count(*) AS calls,
    CAST(sum(d.kernels) AS BIGINT) AS kernels,
    CAST(sum(d.device_ns) AS BIGINT) AS device_ns,
    NULL AS flops,
    NULL AS bytes,
    f.reason
FROM outermost AS o
JOIN tw_call_work AS f USING (signature)
LEFT JOIN device AS d USING (op_id)
WHERE NOT o.usable AND (d.op_id IS NOT NULL OR o.rank IS NULL OR o.rank NOT IN (SELECT rank FROM linked))
GROUP BY o.rank, o.step, f.name, f.reason, d.class
UNION ALL
SELECT
    rank, step, NULL AS op_id, NULL AS op, NULL AS dims, NULL AS dtype, class, NULL AS kind, NULL AS opaque, NULL AS calls,
    count(*) AS kernels, CAST(sum(duration_ns) AS BIGINT) AS device_ns, NULL AS flops, NULL AS bytes, NULL AS reason
FROM launched JOIN kinds USING (kind_id)
WHERE owner_id IS NULL AND is_compute
GROUP BY rank, step, class
ORDER BY rank, step NULLS FIRST, op_id NULLS LAST, op, class, reason
