-- shared: given_work | what of the compute of each rank is due to what it is given: calls, and their inputs
-- grain: one row per rank and step; none where less than half of the compute is of calls whose inputs are recorded
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was launched; NULL where no step is marked
-- column: own_ns DOUBLE | how long its calls took, without those inside them
-- column: given_ns DOUBLE | how long they would have, had each taken the mean over the ranks of the same call on the same inputs in the same step
WITH calls AS (
    SELECT rank, step, name, arguments_hash, n, ns FROM {{ ref('own_calls') }}
    UNION ALL
    SELECT g.rank, g.step, g.name, h.arguments_hash, count(*), CAST(sum(g.duration_ns) AS BIGINT)
    FROM gpu_ops AS g LEFT JOIN host_ops AS l ON l.op_id = g.launch_op_id LEFT JOIN host_ops AS h ON h.op_id = l.parent_id
    WHERE g.category = 'compute'
    GROUP BY ALL
),
alike AS (
    SELECT
        rank, step, ns, arguments_hash IS NOT NULL AS is_known,
        n * sum(ns) OVER same / sum(n) OVER same AS given_ns
    FROM calls
    WHERE (step IS NOT NULL) = (SELECT has_steps FROM {{ ref('mean_step') }})
    WINDOW same AS (PARTITION BY step, name, arguments_hash)
)
SELECT rank, step, CAST(sum(ns) AS DOUBLE) AS own_ns, CAST(sum(given_ns) AS DOUBLE) AS given_ns
FROM alike
GROUP BY rank, step
HAVING 2 * (SELECT sum(ns) FILTER (is_known) FROM alike) >= (SELECT sum(ns) FROM alike)
