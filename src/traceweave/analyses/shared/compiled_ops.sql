-- shared: compiled_ops | GPU ops that code of torch.compile launches, told by their names or by the range that launches them
-- grain: one row per op
-- needs: gpu_ops
-- column: op_id BIGINT | the op
WITH ranges AS (
    SELECT
        rank, pid, tid, start_local_ns,
        max(start_local_ns + duration_ns) OVER (PARTITION BY rank, pid, tid ORDER BY start_local_ns, duration_ns) AS until_local_ns
    FROM host_ops
    WHERE name IN (SELECT name FROM tw_range_names WHERE compiles = 'runs')
),
told AS (
    SELECT g.op_id, g.launch_op_id
    FROM gpu_ops AS g
    ASOF JOIN ranges AS r ON r.rank = g.rank AND r.pid = g.launch_pid AND r.tid = g.launch_tid AND r.start_local_ns <= g.launch_start_local_ns
    WHERE g.launch_start_local_ns < r.until_local_ns
    UNION
    SELECT op_id, launch_op_id FROM gpu_ops WHERE name IN (SELECT name FROM (SELECT DISTINCT name FROM gpu_ops) WHERE {{ names('compiling', 'name') }} = 'runs')
)
SELECT op_id FROM told
-- a graph that holds one kernel of such code was captured from it
UNION
SELECT op_id FROM gpu_ops WHERE launch_op_id IN (SELECT launch_op_id FROM told)
