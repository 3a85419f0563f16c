-- Idle time by its cause in every step of every rank; `rows` holds the rows of the analysis idle_causes.
SELECT rank, step, cause AS part, CAST(sum(idle_ns) AS BIGINT) AS time_ns
FROM rows
GROUP BY rank, step, cause
ORDER BY rank, step NULLS FIRST, cause
