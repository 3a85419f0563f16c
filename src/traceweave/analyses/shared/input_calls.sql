-- shared: input_calls | the calls of what stragglers that compute longer take most longer for, over all ranks
-- grain: one row per rank, step, arguments and operator, or kernel whose operator is known
-- needs: ref('blame')
-- column: rank INTEGER | global rank
-- column: step BIGINT | step of it; NULL: in none
-- column: name VARCHAR | the operator, or the kernel that it launches
-- column: arguments_hash BIGINT | as in host_ops
-- column: op_id BIGINT | the first call in host_ops
-- column: n BIGINT | how many
WITH named AS (
    SELECT DISTINCT kind, name
    FROM (
        FROM {{ ref('differences') }} WHERE kind IN ('kernel', 'operator')
        QUALIFY row_number() OVER (PARTITION BY rank ORDER BY excess_ns DESC, name) = 1
    )
    WHERE rank IN (SELECT rank FROM {{ ref('blame') }} WHERE is_straggler AND cause = 'compute')
)
SELECT rank, step, name, arguments_hash, min(op_id) AS op_id, count(*) AS n
FROM host_ops
WHERE kind = 'op' AND name IN (SELECT name FROM named WHERE kind = 'operator')
GROUP BY ALL
UNION ALL
SELECT rank, step, name, arguments_hash, min(op_id), count(*)
FROM tw_launched()
WHERE op_id IS NOT NULL AND name IN (SELECT name FROM named WHERE kind = 'kernel')
GROUP BY ALL
