-- analysis: queue_depth | how many launches wait on each stream, and how long a full queue blocks the host
-- answers: How far is the host ahead of each stream, and does a full queue ever block it?
-- topic: time
-- grain: one row per rank, device, stream and, with interval_ns, time interval
-- needs: gpu_ops
-- within: rank
-- param: queue_limit BIGINT = 960 | a queue that holds this many launches is full
-- param: interval_ns BIGINT = NULL | length of time intervals; NULL: one interval per stream
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number
-- column: stream BIGINT | stream
-- column: interval_start_ns BIGINT | start of the interval, common clock; the first is the first launch on the stream
-- column: window_ns BIGINT | its length on the rank's own clock; the last one ends with the last start on the stream
-- column: launches BIGINT | launching calls that began in it
-- column: depth_max BIGINT | most launches that waited at once
-- column: depth_mean DOUBLE | mean over the time; NULL for an interval without length
-- column: depth_p50 BIGINT | median over its launches of the launches waiting, itself included; NULL without any
-- column: empty_ns BIGINT | time in which no launch waited
-- column: empty_launches BIGINT | launches that found the queue empty: the host was not ahead
-- column: full_ns BIGINT | time in which queue_limit or more waited
-- column: blocked_launches BIGINT | launches that found the queue full
-- column: blocked_ns BIGINT | time the host spent in those calls
-- column: unlaunched BIGINT | GPU ops of the stream whose launch is not in the trace, over the whole time
-- column: note VARCHAR | what is missing from the numbers; NULL if nothing
-- main: rank, device, stream, interval_start_ns, launches, depth_p50, depth_max, empty_ns, full_ns, blocked_ns, note
-- order: rank, device, stream, interval_start_ns
-- caveat: a launch waits from the start of its call to the start of its first GPU op on the stream; work that runs is not in the queue.
-- caveat: a launch whose work starts before its call, due to differences of the host's and the device's clock, has no waiting time.
-- caveat: the driver decides how many launches fit. CUDA queues 1024, of which at most 1013 to 1023 are seen to wait in real traces; calls are held up from 960 on.
WITH streams AS (
    SELECT
        rank,
        coalesce(device, -1) AS device,
        coalesce(stream, -1) AS stream,
        count(*) - count(launch_op_id) AS unlaunched,
        -- launches that come and those whose work starts, on one line (sweeps)
        sweep_queue_depth(
            list(start_local_ns),
            list(coalesce(launch_op_id, -1)),
            list(launch_start_local_ns),
            list(coalesce(launch_duration_ns, 0)),
            [{{ param('queue_limit') }}, coalesce({{ param('interval_ns') }}, 0)]
        ) AS found
    FROM gpu_ops
    GROUP BY ALL
),
-- a list per column, then a row per stretch
as_lists AS (
    SELECT rank, device, stream, unlaunched, unnest(found) FROM streams
),
stretches AS (
    SELECT rank, device, stream, unlaunched, unnest(COLUMNS(* EXCLUDE (rank, device, stream, unlaunched))) FROM as_lists
)
SELECT
    s.rank,
    nullif(s.device, -1) AS device,
    nullif(s.stream, -1) AS stream,
    aligned_ns(s.start_ns, k.offset_ns, k.drift_ppm, k.reference_local_ns) AS interval_start_ns,
    s.window_ns,
    s.launches,
    s.depth_max,
    tw_ratio(CAST(s.depth_ns AS DOUBLE), s.window_ns) AS depth_mean,
    nullif(s.depth_p50, -1) AS depth_p50,
    s.empty_ns,
    s.empty_launches,
    s.full_ns,
    s.blocked_launches,
    s.blocked_ns,
    s.unlaunched,
    CASE WHEN s.unlaunched > 0 THEN 'no launch is in the trace of ' || tw_about(s.unlaunched, 'op') END AS note
FROM stretches AS s
LEFT JOIN clock_spans AS k ON k.rank = s.rank AND s.start_ns >= k.from_local_ns AND s.start_ns < k.until_local_ns
ORDER BY s.rank, device, stream, interval_start_ns
