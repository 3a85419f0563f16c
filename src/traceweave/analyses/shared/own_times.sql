-- shared: own_times | how long each rank runs each compute kernel or, without a GPU, each operator in each step
-- grain: one row per rank, step, kind and name
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was launched; NULL outside any step
-- column: kind VARCHAR | 'kernel' or 'operator'
-- column: name VARCHAR | its name
-- column: n BIGINT | how often
-- column: ns BIGINT | how long; of an operator as in own_calls
SELECT rank, step, 'kernel' AS kind, name, count(*) AS n, CAST(sum(duration_ns) AS BIGINT) AS ns FROM gpu_ops WHERE category = 'compute' GROUP BY ALL
UNION ALL
SELECT rank, step, 'operator', name, CAST(sum(n) AS BIGINT), CAST(sum(ns) AS BIGINT) FROM {{ ref('own_calls') }} GROUP BY ALL
