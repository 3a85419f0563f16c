-- Idle time by its cause in every step, summed over the ranks; `rows` holds the rows of the analysis idle_causes.
SELECT step, cause, CAST(sum(idle_ns) AS BIGINT) AS idle_ns
FROM rows
GROUP BY step, cause
ORDER BY step NULLS FIRST, cause
