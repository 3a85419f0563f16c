-- shared: own_times | how long each rank runs each compute kernel or, without a GPU, each operator in each step
-- grain: one row per rank, step, kind and name
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was launched; NULL outside any step
-- column: kind VARCHAR | 'kernel' or 'operator'
-- column: name VARCHAR | its name
-- column: n BIGINT | how often
-- column: ns BIGINT | how long; of an operator without those inside it: only what does the work has the shapes that tell how much it is
WITH operators AS (
    FROM device_ops WHERE timeline = 'cpu' AND category = 'compute'
),
inside AS (
    SELECT h.parent_id AS op_id, sum(o.duration_ns) AS ns FROM operators AS o JOIN host_ops AS h USING (op_id) GROUP BY ALL
)
SELECT rank, step, 'kernel' AS kind, name, count(*) AS n, CAST(sum(duration_ns) AS BIGINT) AS ns FROM gpu_ops WHERE category = 'compute' GROUP BY ALL
UNION ALL
SELECT o.rank, o.step, 'operator', o.name, count(*), CAST(sum(o.duration_ns - coalesce(i.ns, 0)) AS BIGINT)
FROM operators AS o LEFT JOIN inside AS i ON i.op_id = o.op_id
GROUP BY ALL
