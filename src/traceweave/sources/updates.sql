-- Kernels of the optimizer that their names do not tell from others: updates (op_id, class). Input: new_gpu_ops as link.sql leaves
-- them, new_host_ops, host_names, classified.
CREATE OR REPLACE TEMP TABLE updates AS
WITH ranges AS (
    -- inside any of the ranges that began before: they may lie in each other
    SELECT
        rank, pid, tid, start_local_ns,
        max(start_local_ns + duration_ns) OVER (PARTITION BY rank, pid, tid ORDER BY start_local_ns ROWS UNBOUNDED PRECEDING) AS until_local_ns
    FROM new_host_ops
    SEMI JOIN (FROM host_names WHERE {{ names('optimizer_ranges', 'name') }} IS NOT NULL AND kind IN ('annotation', 'nvtx')) AS n USING (kind, name)
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
