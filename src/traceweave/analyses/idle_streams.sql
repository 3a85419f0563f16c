-- analysis: idle_streams | why each stream had nothing to do, in the three classes of HolisticTraceAnalysis
-- answers: Does each stream idle because the host was late, because kernels take time to start, or for another reason?
-- topic: time
-- grain: one row per rank, device and stream
-- reads: gpu_ops, host_ops
-- param: kernel_delay_ns BIGINT = 30000 | a shorter idle time before work that was queued is the time it takes to start
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number
-- column: stream BIGINT | stream
-- column: ops BIGINT | kernels, copies and memsets on it
-- column: span_ns BIGINT | from its first start to its last end = busy_ns + idle_ns
-- column: busy_ns BIGINT | time in which something ran on it
-- column: idle_ns BIGINT | host_wait_ns + kernel_wait_ns + other_ns
-- column: host_wait_ns BIGINT | the next op was launched after the previous one had ended
-- column: kernel_wait_ns BIGINT | it was launched before, and the stream idled less than kernel_delay_ns
-- column: other_ns BIGINT | it was launched before, and the stream idled longer: it waited for an event, a copy or another stream
-- column: host_waits BIGINT | how many times
-- column: kernel_waits BIGINT | how many times
-- column: others BIGINT | how many times
-- column: idle_share DOUBLE | idle_ns / span_ns, 0 to 1; NULL for a stream without length
-- column: unlaunched BIGINT | ops whose launch is not in the trace: the idle time before them cannot be host_wait
-- column: note VARCHAR | what the classes cannot tell; NULL if there is nothing to say
-- order: rank, device, stream
-- caveat: streams are idle at the same time: the sum over streams exceeds the idle time of the device, which breakdown and gaps have.
-- caveat: the definition is that of HolisticTraceAnalysis 0.5, whose numbers differ where ops of a stream overlap: it measures from the end of the op before, this from the latest end so far, so nothing is negative.
-- caveat: gaps with per = 'stream' names the cause of every single gap, and which op of another stream it waited for.
WITH ordered AS (
    SELECT
        rank,
        coalesce(device, -1) AS device,
        coalesce(stream, -1) AS stream,
        launch_op_id,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns,
        max(start_local_ns + duration_ns) OVER (
            PARTITION BY rank, coalesce(device, -1), coalesce(stream, -1) ORDER BY start_local_ns, duration_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS free_from_ns
    FROM gpu_ops
),
waits AS (
    SELECT
        o.rank,
        o.device,
        o.stream,
        o.launch_op_id,
        o.start_ns,
        o.end_ns,
        CASE WHEN o.start_ns > o.free_from_ns THEN o.start_ns - o.free_from_ns END AS idle_ns,
        coalesce(h.start_local_ns > o.free_from_ns, FALSE) AS is_host_wait
    FROM ordered AS o
    LEFT JOIN host_ops AS h ON h.op_id = o.launch_op_id
),
summed AS (
    SELECT
        rank,
        device,
        stream,
        count(*) AS ops,
        max(end_ns) - min(start_ns) AS span_ns,
        CAST(coalesce(sum(idle_ns), 0) AS BIGINT) AS idle_ns,
        CAST(coalesce(sum(CASE WHEN is_host_wait THEN idle_ns END), 0) AS BIGINT) AS host_wait_ns,
        CAST(coalesce(
            sum(CASE WHEN NOT is_host_wait AND idle_ns < $kernel_delay_ns THEN idle_ns END), 0
        ) AS BIGINT) AS kernel_wait_ns,
        count(CASE WHEN is_host_wait THEN idle_ns END) AS host_waits,
        count(CASE WHEN NOT is_host_wait AND idle_ns < $kernel_delay_ns THEN idle_ns END) AS kernel_waits,
        count(idle_ns) AS waits,
        count(*) - count(launch_op_id) AS unlaunched
    FROM waits
    GROUP BY rank, device, stream
)
SELECT
    rank,
    nullif(device, -1) AS device,
    nullif(stream, -1) AS stream,
    ops,
    span_ns,
    span_ns - idle_ns AS busy_ns,
    idle_ns,
    host_wait_ns,
    kernel_wait_ns,
    idle_ns - host_wait_ns - kernel_wait_ns AS other_ns,
    host_waits,
    kernel_waits,
    waits - host_waits - kernel_waits AS others,
    tw_ratio(idle_ns, span_ns) AS idle_share,
    unlaunched,
    CASE
        WHEN unlaunched = ops THEN 'no launch is in the trace: host_wait is not told apart'
        WHEN unlaunched > 0 THEN 'launches of ' || unlaunched || ' ops are not in the trace'
    END AS note
FROM summed
ORDER BY rank, device, stream
