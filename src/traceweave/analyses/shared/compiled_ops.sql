-- shared: compiled_ops | GPU ops that code of torch.compile launches, told by their names or by the range that launches them
-- grain: one row per op
-- needs: gpu_ops
-- column: op_id BIGINT | the op
WITH named AS (
    -- any_value, lest DuckDB matches the name of every op
    SELECT name FROM (SELECT any_value(name) AS name FROM gpu_ops GROUP BY gpu_ops.name) WHERE {{ names('compiling', 'name') }} = 'runs'
),
ranges AS MATERIALIZED (
    SELECT
        rank, pid, tid, start_local_ns,
        max(start_local_ns + duration_ns) OVER (PARTITION BY rank, pid, tid ORDER BY start_local_ns, duration_ns) AS until_local_ns
    FROM host_ops
    WHERE name IN (SELECT name FROM tw_range_names WHERE compiles = 'runs')
),
-- calls first: most runs have no such range, and then nothing of their ops is read
calls AS (
    SELECT h.op_id
    FROM (
        SELECT rank, pid, tid, start_local_ns, op_id FROM host_ops
        SEMI JOIN ranges USING (rank, pid, tid)
        WHERE kind IN ('runtime', 'driver')
    ) AS h
    ASOF JOIN ranges AS r ON r.rank = h.rank AND r.pid = h.pid AND r.tid = h.tid AND r.start_local_ns <= h.start_local_ns
    WHERE h.start_local_ns < r.until_local_ns
    UNION
    -- a graph that holds one kernel of such code was captured from it
    SELECT launch_op_id FROM gpu_ops WHERE name IN (FROM named)
)
SELECT op_id FROM gpu_ops WHERE launch_op_id IN (FROM calls) OR name IN (FROM named)
