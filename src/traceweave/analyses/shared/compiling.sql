-- shared: compiling | how long the host compiled code in each step
-- grain: one row per rank and step in which it did; per rank where no step is marked
-- needs: host_ops
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole recording
-- column: compile_ns BIGINT | length of the union of the ranges in which code was compiled, over all threads
SELECT rank, step, CAST(sum(tw_added_ns(start_ns, end_ns, covered_until_ns)) AS BIGINT) AS compile_ns
FROM (
    SELECT
        rank,
        step,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns,
        max(start_local_ns + duration_ns) OVER (
            PARTITION BY rank, step ORDER BY start_local_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver') AND name IN (SELECT name FROM tw_range_names WHERE compiles = 'yes')
)
WHERE tw_counts(rank, step)
GROUP BY rank, step
