-- analysis: steps | how long every step took over the ranks
-- answers: How steady are the steps, and which rank is the slowest?
-- topic: time
-- grain: one row per step
-- reads: steps
-- column: step BIGINT | step number
-- column: ranks BIGINT | ranks that recorded the step
-- column: first_start_ns BIGINT | earliest start over the ranks, common clock
-- column: last_end_ns BIGINT | latest end over the ranks, common clock
-- column: duration_min_ns BIGINT | shortest host range over the ranks
-- column: duration_p50_ns BIGINT | median over the ranks (nearest rank: one of the values)
-- column: duration_max_ns BIGINT | longest
-- column: slowest_rank INTEGER | the rank of the longest, the lowest of several
-- column: device_ranks BIGINT | ranks with a device window in the step
-- column: device_min_ns BIGINT | shortest device window over the ranks, each on its own clock; NULL if there is none
-- column: device_p50_ns BIGINT | median over the ranks
-- column: device_max_ns BIGINT | longest
-- column: device_slowest_rank INTEGER | the rank of the longest, the lowest of several
-- column: source VARCHAR | where the step comes from: 'ProfilerStep', 'nvtx', or 'inferred' where nobody marked it, from kernels that repeat; 'several' if the ranks differ
-- order: step
-- caveat: an inferred step begins with the launch of a kernel that occurs once per period; the run may see its steps begin elsewhere, and ranks count theirs from 0 each.
-- caveat: where ranks wait for each other in every step, all of them take as long as the slowest: stragglers tells them apart.
SELECT
    step,
    count(DISTINCT rank) AS ranks,
    min(start_ns) AS first_start_ns,
    max(end_ns) AS last_end_ns,
    min(duration_ns) AS duration_min_ns,
    tw_percentile(duration_ns, 0.5) AS duration_p50_ns,
    max(duration_ns) AS duration_max_ns,
    first(rank ORDER BY duration_ns DESC, rank) AS slowest_rank,
    count(DISTINCT rank) FILTER (WHERE device_end_ns IS NOT NULL) AS device_ranks,
    min(device_end_local_ns - device_start_local_ns) AS device_min_ns,
    tw_percentile(device_end_local_ns - device_start_local_ns, 0.5) AS device_p50_ns,
    max(device_end_local_ns - device_start_local_ns) AS device_max_ns,
    first(rank ORDER BY device_end_local_ns - device_start_local_ns DESC, rank)
        FILTER (WHERE device_end_ns IS NOT NULL) AS device_slowest_rank,
    CASE WHEN min(source) = max(source) THEN min(source) ELSE 'several' END AS source
FROM steps
GROUP BY step
ORDER BY step
