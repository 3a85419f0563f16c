-- shared: given_work | what of the compute of each rank is due to what it is given: calls, and their inputs
-- grain: one row per rank and step; none where no step is marked, as one recording does not tell when calls are made
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which it was launched
-- column: own_ns DOUBLE | how long its calls took, without those inside them
-- column: given_ns DOUBLE | how long they would have, had each taken the mean over the ranks of the same call on inputs of the same sizes in the same step; calls whose inputs are not recorded count as they are, but for what autograd does around operators
WITH calls AS (
    -- what autograd does around operators it is not given: it has no inputs that could be recorded
    SELECT
        rank, step, name, CASE WHEN name IN (SELECT name FROM tw_range_names WHERE autograd IS NOT NULL) THEN coalesce(arguments_hash, 0) ELSE arguments_hash END AS arguments_hash, n, ns
    FROM {{ ref('own_calls') }}
    UNION ALL
    SELECT rank, step, name, arguments_hash, count(*), CAST(sum(duration_ns) AS BIGINT) FROM tw_launched() GROUP BY ALL
),
alike AS (
    SELECT
        rank, step, ns,
        CASE WHEN arguments_hash IS NULL THEN ns ELSE n * sum(ns) OVER same / sum(n) OVER same END AS given_ns
    FROM calls
    WHERE step IS NOT NULL
    WINDOW same AS (PARTITION BY step, name, arguments_hash)
)
SELECT rank, step, CAST(sum(ns) AS DOUBLE) AS own_ns, CAST(sum(given_ns) AS DOUBLE) AS given_ns
FROM alike
GROUP BY rank, step
