-- analysis: steps | how long every step took over the ranks
-- answers: How steady are the steps, and which rank is the slowest?
-- topic: time
-- grain: one row per step
-- needs: steps
-- page: figure-budget-heat
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
-- column: source VARCHAR | what marks the step: 'ProfilerStep', 'engine' (a batch of an inference engine), 'nvtx' (any other range); 'module' (the model's calls), 'inferred' (kernels that repeat) or 'recording' (each of several of a rank) where no range does; 'several' if the ranks differ
-- column: kind VARCHAR | what an inference engine runs in it: 'prefill', 'decode', 'mixed' ...; NULL where it does not say
-- column: length_ns BIGINT | how long the step took: mean over the ranks of length_source; this is the step time of health, findings and the page
-- column: length_source VARCHAR | 'device': the device windows; 'host': the ranges on the host, where there is no GPU, or where these tile the time and are steady, and the device windows are not
-- column: longest_rank INTEGER | the rank on which that is longest
-- main: step, ranks, length_ns, longest_rank, duration_p50_ns, duration_max_ns, slowest_rank, device_p50_ns, device_max_ns, source
-- order: step
-- caveat: an inferred step begins with a call of the model, or with the launch of a kernel that occurs once per period; the training loop's steps may begin elsewhere, and each rank counts from 0.
-- caveat: device windows tile the timeline, but they vary with how far the host is ahead of the GPU: where that changes during the recording, and host ranges tile it too and spread less than half as much, host ranges are the length of a step.
-- caveat: length_ns is a mean, since a delay of one rank at the end of a step makes the others wait in the next one.
-- caveat: where ranks wait for each other in every step, all of them take as long as the slowest: stragglers distinguishes them.
WITH measured AS (
    SELECT *, device_end_local_ns - device_start_local_ns AS device_ns FROM steps
),
per_step AS MATERIALIZED (
    SELECT
        step,
        count(DISTINCT rank) AS ranks,
        min(start_ns) AS first_start_ns,
        max(end_ns) AS last_end_ns,
        min(duration_ns) AS duration_min_ns,
        tw_percentile(duration_ns, 0.5) AS duration_p50_ns,
        max(duration_ns) AS duration_max_ns,
        CAST(avg(duration_ns) AS BIGINT) AS duration_mean_ns,
        first(rank ORDER BY duration_ns DESC, rank) AS slowest_rank,
        count(DISTINCT rank) FILTER (WHERE device_ns IS NOT NULL) AS device_ranks,
        min(device_ns) AS device_min_ns,
        tw_percentile(device_ns, 0.5) AS device_p50_ns,
        max(device_ns) AS device_max_ns,
        CAST(avg(device_ns) AS BIGINT) AS device_mean_ns,
        first(rank ORDER BY device_ns DESC, rank) FILTER (WHERE device_ns IS NOT NULL) AS device_slowest_rank,
        CASE WHEN min(source) = max(source) THEN min(source) ELSE 'several' END AS source,
        CASE WHEN min(kind) = max(kind) THEN min(kind) WHEN max(kind) IS NOT NULL THEN 'several' END AS kind
    FROM measured
    GROUP BY step
),
spreads AS (
    SELECT
        (max(device_mean_ns) - min(device_mean_ns)) / nullif(tw_percentile(device_mean_ns, 0.5), 0) AS device_spread,
        (max(duration_mean_ns) - min(duration_mean_ns)) / nullif(tw_percentile(duration_mean_ns, 0.5), 0) AS host_spread
    FROM per_step
    -- a step without GPU work has no device window to compare
    WHERE device_mean_ns IS NOT NULL
),
-- ranges around a part of the loop are no steps' lengths
tiling AS (
    SELECT min(covered) > 0.9 AS tiles
    FROM (
        -- the median, as a rank may have been recorded several times
        SELECT rank, median(duration_ns / (next_ns - start_local_ns)) AS covered
        FROM (SELECT *, lead(start_local_ns) OVER (PARTITION BY rank ORDER BY start_local_ns) AS next_ns FROM steps)
        GROUP BY rank
    ) AS r
),
judged AS (
    SELECT
        p.*,
        device_mean_ns IS NOT NULL AND NOT coalesce(t.tiles AND s.device_spread > 0.1 AND 2 * s.host_spread < s.device_spread, FALSE) AS by_device
    FROM per_step AS p CROSS JOIN spreads AS s CROSS JOIN tiling AS t
)
SELECT
    step,
    ranks,
    first_start_ns,
    last_end_ns,
    duration_min_ns,
    duration_p50_ns,
    duration_max_ns,
    slowest_rank,
    device_ranks,
    device_min_ns,
    device_p50_ns,
    device_max_ns,
    device_slowest_rank,
    source,
    kind,
    CASE WHEN by_device THEN device_mean_ns ELSE duration_mean_ns END AS length_ns,
    CASE WHEN by_device THEN 'device' ELSE 'host' END AS length_source,
    CASE WHEN by_device THEN device_slowest_rank ELSE slowest_rank END AS longest_rank
FROM judged
ORDER BY step
