-- analysis: queue_depth | how many launches wait on each stream, and how long the host is held up by a full queue
-- answers: How far is the host ahead of each stream, and is it ever held up by a full queue?
-- topic: time
-- grain: one row per rank, device, stream and, with interval_ns, stretch of time
-- reads: clocks, gpu_ops, host_ops
-- param: queue_limit BIGINT = 1024 | a queue that holds this many launches is full
-- param: interval_ns BIGINT = NULL | cut the time into stretches of this length; NULL: one stretch per stream
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number
-- column: stream BIGINT | stream
-- column: interval_start_ns BIGINT | start of the stretch, common clock; the first is the first launch on the stream
-- column: window_ns BIGINT | its length on the rank's own clock; the last one ends with the last start on the stream
-- column: launches BIGINT | launching calls that began in it
-- column: depth_max BIGINT | most launches that waited at once
-- column: depth_mean DOUBLE | mean over the time; NULL for a stretch without length
-- column: depth_p50 BIGINT | median over its launches of the launches waiting, itself included; NULL without any
-- column: empty_ns BIGINT | time in which none waited
-- column: empty_launches BIGINT | launches that found none waiting: the host was not ahead
-- column: full_ns BIGINT | time in which queue_limit or more waited
-- column: blocked_launches BIGINT | launches that found the queue full
-- column: blocked_ns BIGINT | time the host spent in those calls
-- column: unlaunched BIGINT | GPU ops of the stream whose launch is not in the trace, over the whole time
-- column: note VARCHAR | what the numbers lack; NULL if nothing
-- order: rank, device, stream, interval_start_ns
-- caveat: a launch waits from the start of its call to the start of its first GPU op on the stream; work that runs is not in the queue.
-- caveat: a launch whose work starts before its call, as clocks of host and device can make it look, waits for no time.
-- caveat: how many launches fit is up to the driver; 1024 is what HolisticTraceAnalysis assumes.
WITH queued AS MATERIALIZED (
    SELECT
        g.rank,
        g.device,
        g.stream,
        h.start_local_ns AS from_ns,
        greatest(g.start_ns, h.start_local_ns) AS until_ns,
        h.duration_ns AS call_ns
    FROM (
        SELECT rank, coalesce(device, -1) AS device, coalesce(stream, -1) AS stream, launch_op_id, min(start_local_ns) AS start_ns
        FROM gpu_ops
        WHERE launch_op_id IS NOT NULL
        GROUP BY ALL
    ) AS g
    JOIN host_ops AS h ON h.op_id = g.launch_op_id
),
spans AS (
    SELECT rank, device, stream, min(from_ns) AS first_ns, max(until_ns) AS last_ns
    FROM queued
    GROUP BY ALL
),
changes AS (
    SELECT rank, device, stream, from_ns AS at_ns, 1 AS change, call_ns FROM queued
    UNION ALL
    SELECT rank, device, stream, until_ns, -1, NULL FROM queued
    UNION ALL
    SELECT rank, device, stream, unnest(range(first_ns, last_ns, $interval_ns)), 0, NULL
    FROM spans
    WHERE $interval_ns IS NOT NULL
),
-- at one moment the launches come first, so that none leaves before it came
counted AS (
    SELECT
        *,
        CAST(sum(change) OVER (in_order ROWS UNBOUNDED PRECEDING) AS BIGINT) AS depth,
        lead(at_ns) OVER in_order - at_ns AS length_ns
    FROM changes
    WINDOW in_order AS (PARTITION BY rank, device, stream ORDER BY at_ns, change DESC)
),
unlaunched AS (
    SELECT rank, coalesce(device, -1) AS device, coalesce(stream, -1) AS stream, count(*) AS ops
    FROM gpu_ops
    WHERE launch_op_id IS NULL
    GROUP BY ALL
),
summed AS (
    SELECT
        c.rank,
        c.device,
        c.stream,
        s.first_ns + coalesce((least(c.at_ns, greatest(s.last_ns - 1, s.first_ns)) - s.first_ns) // $interval_ns * $interval_ns, 0)
            AS interval_start_ns,
        CAST(coalesce(sum(c.length_ns), 0) AS BIGINT) AS window_ns,
        count(CASE WHEN c.change = 1 THEN 1 END) AS launches,
        max(c.depth) AS depth_max,
        CAST(coalesce(sum(c.depth * c.length_ns), 0) AS DOUBLE) AS depth_ns,
        tw_percentile(CASE WHEN c.change = 1 THEN c.depth END, 0.5) AS depth_p50,
        CAST(coalesce(sum(CASE WHEN c.depth = 0 THEN c.length_ns END), 0) AS BIGINT) AS empty_ns,
        count(CASE WHEN c.change = 1 AND c.depth = 1 THEN 1 END) AS empty_launches,
        CAST(coalesce(sum(CASE WHEN c.depth >= $queue_limit THEN c.length_ns END), 0) AS BIGINT) AS full_ns,
        count(CASE WHEN c.change = 1 AND c.depth > $queue_limit THEN 1 END) AS blocked_launches,
        CAST(coalesce(sum(CASE WHEN c.change = 1 AND c.depth > $queue_limit THEN c.call_ns END), 0) AS BIGINT)
            AS blocked_ns
    FROM counted AS c JOIN spans AS s USING (rank, device, stream)
    GROUP BY 1, 2, 3, 4
)
SELECT
    s.rank,
    nullif(s.device, -1) AS device,
    nullif(s.stream, -1) AS stream,
    tw_common_ns(s.interval_start_ns, k.offset_ns, k.drift_ppm, k.reference_local_ns) AS interval_start_ns,
    s.window_ns,
    s.launches,
    s.depth_max,
    tw_ratio(s.depth_ns, s.window_ns) AS depth_mean,
    s.depth_p50,
    s.empty_ns,
    s.empty_launches,
    s.full_ns,
    s.blocked_launches,
    s.blocked_ns,
    coalesce(u.ops, 0) AS unlaunched,
    CASE WHEN u.ops > 0 THEN 'launches of ' || u.ops || ' ops are not in the trace' END AS note
FROM summed AS s
LEFT JOIN unlaunched AS u USING (rank, device, stream)
LEFT JOIN tw_clocks() AS k
    ON k.rank = s.rank AND s.interval_start_ns >= k.from_ns AND s.interval_start_ns < k.until_ns
ORDER BY s.rank, device, stream, interval_start_ns
