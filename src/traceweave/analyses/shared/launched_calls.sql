-- shared: launched_calls | how long each rank runs each compute kernel for each call of an operator on the same arguments in each step
-- grain: one row per rank, step, kernel, operator and arguments
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was launched; NULL outside any step
-- column: name VARCHAR | the kernel's name
-- column: operator VARCHAR | that in which it was launched; NULL: not known, or launched outside any
-- column: arguments_hash BIGINT | as in host_ops
-- column: op_id BIGINT | the first call; NULL: not known
-- column: n BIGINT | how often
-- column: ns BIGINT | how long
SELECT
    o.rank, o.step, o.name, CASE WHEN h.kind = 'op' THEN h.name END AS operator, h.arguments_hash,
    min(h.op_id) AS op_id, count(*) AS n, CAST(sum(o.duration_ns) AS BIGINT) AS ns
FROM gpu_ops AS o LEFT JOIN host_ops AS l ON l.op_id = o.launch_op_id LEFT JOIN host_ops AS h ON h.op_id = l.parent_id
WHERE o.category = 'compute'
GROUP BY ALL
