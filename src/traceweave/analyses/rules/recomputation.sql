-- rule: recomputation | activations computed again
-- topic: compute
-- finds: Operators recorded for autograd while a backward runs: forward operators that run again there (activation checkpointing). Bound: the compute they are or launch, of ranks that do it beside others that do not on the rank where it is most. Never more than info: memory is what it saves. Silent in steps where gradients are differentiated themselves (`create_graph=True`), and where no sequence numbers are recorded.
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
    SELECT a.rank, g.duration_ns
    FROM (
        SELECT rank, step, hash(launch_pid, launch_tid) AS thread, launch_start_local_ns AS start_ns, duration_ns
        FROM gpu_ops
        WHERE category = 'compute' AND launch_start_local_ns IS NOT NULL AND rank IN (SELECT rank FROM again)
    ) AS g
    ASOF JOIN again AS a ON a.rank = g.rank AND a.thread = g.thread AND g.start_ns >= a.start_ns
    WHERE g.start_ns < a.end_ns AND tw_counts(g.rank, g.step)
    UNION ALL
    SELECT a.rank, a.end_ns - a.start_ns
    FROM again AS a CROSS JOIN {{ ref('mean_step') }} AS s
    WHERE NOT s.has_gpu AND tw_counts(a.rank, a.step)
),
told AS (
    SELECT
        list(w.rank ORDER BY w.rank) AS doing,
        -- of ranks that do it beside others that do not, the longest holds these up
        CASE WHEN len(doing) < (SELECT count(DISTINCT rank) FROM backwards) THEN doing END AS some_ranks,
        sum(w.time_ns) / s.windows AS mean_ns,
        max(w.time_ns) * s.ranks / s.windows AS most_ns
    FROM (SELECT rank, sum(duration_ns) AS time_ns FROM work GROUP BY rank) AS w CROSS JOIN {{ ref('mean_step') }} AS s
    GROUP BY s.ranks, s.windows
)
SELECT
    CASE WHEN t.some_ranks IS NULL THEN format('{} computes activations again in its backward', s.each_unit)
        ELSE tw_subject(t.some_ranks, 'computes activations again in its backward, others do not', 'compute activations again in backward, others do not') END AS title,
    'info' AS severity,
    CASE WHEN NOT s.has_gpu THEN 'host_ops' END AS proof,
    t.some_ranks AS ranks,
    if(t.some_ranks IS NULL, t.mean_ns, t.most_ns) AS cost_ns,
    CASE WHEN t.some_ranks IS NULL THEN format('Forward operators run again inside backward: {} of compute per {}, {} of all', tw_time(t.mean_ns), s.unit, tw_percent(t.mean_ns / s.compute_ns))
        ELSE format('On {} alone forward operators run again inside backward: {} of compute per {}', tw_ranks(t.some_ranks), tw_time(t.most_ns), s.unit)
            || CASE WHEN len(t.some_ranks) > 1 THEN ' where it is most' ELSE '' END END AS evidence,
    CASE WHEN t.some_ranks IS NULL THEN 'Where memory allows, checkpoint fewer layers, or only operators that are cheap to run again (selective activation checkpointing)'
        ELSE 'Checkpoint alike on all ranks, or not where memory allows: the others wait for it' END AS advice
FROM told AS t CROSS JOIN {{ ref('mean_step') }} AS s
