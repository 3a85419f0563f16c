-- rule: recomputation | activations computed again
-- topic: compute
-- finds: Operators recorded for autograd while a backward runs: forward operators that run again there (activation checkpointing). Bound: the compute they are or launch. Never more than info: memory is what it saves. Silent in steps where gradients are differentiated themselves (`create_graph=True`), and where no sequence numbers are recorded.
-- try: Checkpoint fewer layers, or only what is cheap to run again, where memory allows.
-- proof: kernels
-- needs: host_ops
WITH nodes AS MATERIALIZED (
    SELECT op_id, rank, hash(pid, tid) AS thread, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM host_ops
    WHERE kind = 'op' AND starts_with(name, 'autograd::engine::evaluate_function: ')
),
-- one that runs inside another is a backward of what was recomputed
backwards AS MATERIALIZED (
    SELECT * FROM nodes
    QUALIFY start_ns >= coalesce(max(end_ns) OVER (PARTITION BY rank, thread ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
recorded AS MATERIALIZED (
    SELECT h.*
    FROM (
        -- autograd numbers what it records
        SELECT o.op_id, o.rank, o.step, o.name, hash(o.pid, o.tid) AS thread, o.start_local_ns AS start_ns, o.start_local_ns + o.duration_ns AS end_ns
        FROM host_ops AS o
        SEMI JOIN backwards AS t ON t.rank = o.rank AND t.thread = hash(o.pid, o.tid)
        -- neither the operators of autograd itself, nor what it evaluates
        ANTI JOIN nodes AS n ON n.op_id = o.parent_id
        WHERE o.kind = 'op' AND o.sequence IS NOT NULL AND NOT starts_with(o.name, 'autograd::')
    ) AS h
    ASOF JOIN backwards AS b ON b.rank = h.rank AND b.thread = h.thread AND h.start_ns >= b.start_ns
    WHERE h.start_ns < b.end_ns
    -- a function in Python has a number also where nothing is recorded, as where it is the backward of its like
    QUALIFY bool_or(contains(h.name, '::')) OVER (PARTITION BY b.op_id)
),
again AS MATERIALIZED (
    SELECT r.*
    FROM recorded AS r
    ANTI JOIN (FROM recorded WHERE contains(name, '_backward')) AS t ON t.rank = r.rank AND t.step IS NOT DISTINCT FROM r.step
    QUALIFY start_ns >= coalesce(max(end_ns) OVER (PARTITION BY rank, thread ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns)
),
work AS (
    SELECT a.name, g.duration_ns
    FROM (
        SELECT rank, step, hash(launch_pid, launch_tid) AS thread, launch_start_local_ns AS start_ns, duration_ns
        FROM gpu_ops
        WHERE category = 'compute' AND launch_start_local_ns IS NOT NULL AND rank IN (SELECT rank FROM again)
    ) AS g
    ASOF JOIN again AS a ON a.rank = g.rank AND a.thread = g.thread AND g.start_ns >= a.start_ns
    CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE g.start_ns < a.end_ns AND (g.step IS NOT NULL OR NOT s.has_steps)
    UNION ALL
    SELECT a.name, a.end_ns - a.start_ns
    FROM again AS a CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE NOT s.has_gpu AND (a.step IS NOT NULL OR NOT s.has_steps)
)
SELECT
    format('{} computes activations again in its backward', s.each_unit) AS title,
    'info' AS severity,
    sum(w.duration_ns) / any_value(s.windows) AS cost_ns,
    format('Forward operators run again inside backward: {} of compute per {}, {} of all',
        tw_time(sum(w.duration_ns) / any_value(s.windows)), any_value(s.unit), tw_percent(sum(w.duration_ns) / any_value(s.windows) / any_value(s.compute_ns))) AS evidence,
    'Where memory allows, checkpoint fewer layers, or only operators that are cheap to run again (selective activation checkpointing): see memory' AS advice
FROM work AS w CROSS JOIN {{ ref('mean_step') }} AS s
GROUP BY s.each_unit
HAVING count(*) > 0
