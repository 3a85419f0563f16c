-- What the ranks did in every step, summed over the ranks; `rows` holds the rows of the analysis breakdown. step is NULL for
-- ranks whose traces mark no steps: their whole recording.
SELECT
    step,
    CAST(count(*) AS BIGINT) AS ranks,
    bool_and(timeline = 'gpu') AS gpu,
    max(window_ns) AS slowest_ns,
    CAST(sum(window_ns) AS BIGINT) AS window_ns,
    CAST(sum(compute_ns) AS BIGINT) AS compute_ns,
    CAST(sum(comm_ns) AS BIGINT) AS comm_ns,
    CAST(sum(overlap_ns) AS BIGINT) AS overlap_ns,
    CAST(sum(exposed_comm_ns) AS BIGINT) AS exposed_comm_ns,
    CAST(sum(exposed_wait_ns) AS BIGINT) AS exposed_wait_ns,
    CAST(sum(exposed_transfer_ns) AS BIGINT) AS exposed_transfer_ns,
    CAST(sum(exposed_unsplit_ns) AS BIGINT) AS exposed_unsplit_ns,
    CAST(sum(exposed_memory_ns) AS BIGINT) AS exposed_memory_ns,
    CAST(sum(idle_ns) AS BIGINT) AS idle_ns
FROM rows
GROUP BY step
ORDER BY step NULLS FIRST
