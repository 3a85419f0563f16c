-- shared: input_calls | the calls of what stragglers that compute longer take most longer for, over all ranks
-- grain: one row per operator, or kernel whose operator is known
-- needs: host_ops, ref('blame')
-- column: rank INTEGER | global rank
-- column: step BIGINT | step of it; NULL: in none
-- column: name VARCHAR | the operator, or the kernel that it launches
-- column: op_id BIGINT | the operator in host_ops
-- column: arguments_hash BIGINT | that of its arguments
WITH named AS (
    SELECT DISTINCT kind, name
    FROM (
        FROM {{ ref('differences') }} WHERE kind IN ('kernel', 'operator')
        QUALIFY row_number() OVER (PARTITION BY rank ORDER BY excess_ns DESC, name) = 1
    )
    WHERE rank IN (SELECT rank FROM {{ ref('blame') }} WHERE is_straggler AND cause = 'compute')
)
SELECT rank, step, name, op_id, arguments_hash
FROM host_ops
WHERE kind = 'op' AND name IN (SELECT name FROM named WHERE kind = 'operator')
UNION ALL
SELECT o.rank, o.step, o.name, h.op_id, h.arguments_hash
FROM gpu_ops AS o JOIN host_ops AS l ON l.op_id = o.launch_op_id JOIN host_ops AS h ON h.op_id = l.parent_id
WHERE o.category = 'compute' AND o.name IN (SELECT name FROM named WHERE kind = 'kernel')
