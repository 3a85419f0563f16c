-- shared: steadiness | how steady the steps are; a step is as long as its mean over the ranks: what holds one rank up at its end makes the others wait in the next one
-- grain: one row; none without steps
-- column: steps BIGINT | different steps
-- column: mean_ns DOUBLE | mean length
-- column: p50_ns BIGINT | median length
-- column: p95_ns BIGINT | 95th percentile
-- column: max_ns BIGINT | longest
-- column: longest BIGINT | the longest step
-- column: rank INTEGER | the rank that was longest in it
SELECT
    count(*) AS steps,
    avg(length_ns) AS mean_ns,
    tw_percentile(length_ns, 0.5) AS p50_ns,
    tw_percentile(length_ns, 0.95) AS p95_ns,
    max(length_ns) AS max_ns,
    arg_max(step, length_ns) AS longest,
    arg_max(rank, length_ns) AS rank
FROM (
    SELECT step, CAST(avg(window_ns) AS BIGINT) AS length_ns, arg_max(rank, window_ns) AS rank
    FROM shared_budget()
    WHERE step IS NOT NULL
    GROUP BY step
)
HAVING count(*) > 0
