-- Kernels of the optimizer that their names do not tell from others: updates (op_id, class). Input: new_gpu_ops as link.sql leaves
-- them, new_host_ops, host_names, classified.
CREATE OR REPLACE TEMP TABLE updates AS
WITH marked AS (
    SELECT rank, pid, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns
    FROM new_host_ops
    SEMI JOIN (FROM host_names WHERE {{ names('optimizer_ranges', 'name') }} IS NOT NULL AND kind IN ('annotation', 'nvtx')) AS n USING (kind, name)
),
backward AS (
    SELECT
        rank, pid, start_local_ns,
        max(start_local_ns + duration_ns) OVER (PARTITION BY rank, pid ORDER BY start_local_ns ROWS UNBOUNDED PRECEDING) AS until_local_ns
    FROM new_host_ops
    SEMI JOIN (FROM host_names WHERE {{ names('autograd_ranges', 'name') }} IS NOT NULL) AS n USING (kind, name)
    WHERE EXISTS (FROM marked)
),
ranges AS (
    SELECT
        m.rank, m.pid, m.tid,
        -- forward and backward pass may run in it, as a closure: the update comes after them
        CASE WHEN b.start_local_ns >= m.start_local_ns THEN b.until_local_ns ELSE m.start_local_ns END AS start_local_ns,
        -- inside any of the ranges that began before: they may lie in each other
        max(m.end_local_ns) OVER (PARTITION BY m.rank, m.pid, m.tid ORDER BY m.start_local_ns ROWS UNBOUNDED PRECEDING) AS until_local_ns
    FROM marked AS m
    ASOF LEFT JOIN backward AS b ON b.rank = m.rank AND b.pid = m.pid AND b.start_local_ns < m.end_local_ns
),
candidates AS (
    SELECT g.op_id, g.launch_op_id
    FROM new_gpu_ops AS g JOIN classified AS c USING (kind, name)
    WHERE c.class IN ('elementwise', 'triton') AND EXISTS (FROM ranges)
)
SELECT g.op_id, 'optimizer' AS class
FROM candidates AS g
JOIN (SELECT op_id, rank, pid, tid, start_local_ns FROM new_host_ops) AS h ON h.op_id = g.launch_op_id
ASOF JOIN ranges AS r ON r.rank = h.rank AND r.pid = h.pid AND r.tid = h.tid AND h.start_local_ns >= r.start_local_ns
WHERE h.start_local_ns < r.until_local_ns;
