-- analysis: idle_streams | why each stream was idle, in the three classes of HolisticTraceAnalysis
-- answers: Does each stream idle because the host was late, because kernels take time to start, or for another reason?
-- topic: time
-- grain: one row per rank, device and stream
-- needs: gpu_ops
-- within: rank
-- param: kernel_delay_ns
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
-- column: note VARCHAR | what the classes cannot distinguish; NULL if there is nothing to say
-- main: rank, device, stream, ops, busy_ns, idle_ns, host_wait_ns, kernel_wait_ns, other_ns, note
-- order: rank, device, stream
-- caveat: streams are idle at the same time: the sum over streams exceeds the idle time of the device, which breakdown and gaps have.
-- caveat: the definition is that of HolisticTraceAnalysis 0.5, whose numbers differ where ops of a stream overlap: it measures from the end of the op before, this from the latest end so far, so nothing is negative.
-- caveat: gaps with per = 'stream' names the cause of every single gap, and which op of another stream it waited for.
WITH streams AS (
    SELECT
        rank,
        coalesce(device, -1) AS device,
        coalesce(stream, -1) AS stream,
        count(*) AS ops,
        count(*) - count(launch_op_id) AS unlaunched,
        max(start_local_ns + duration_ns) - min(start_local_ns) AS span_ns,
        sweep_stream_idle(
            list(start_local_ns),
            list(start_local_ns + duration_ns),
            list(launch_start_local_ns),
            [{{ param('kernel_delay_ns') }}]
        ) AS found
    FROM gpu_ops
    GROUP BY ALL
),
summed AS (
    SELECT
        rank,
        device,
        stream,
        ops,
        unlaunched,
        span_ns,
        found.idle_ns[1] AS idle_ns,
        found.host_wait_ns[1] AS host_wait_ns,
        found.kernel_wait_ns[1] AS kernel_wait_ns,
        found.waits[1] AS waits,
        found.host_waits[1] AS host_waits,
        found.kernel_waits[1] AS kernel_waits
    FROM streams
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
        WHEN unlaunched = ops THEN 'no launch is in the trace: host_wait cannot be distinguished'
        WHEN unlaunched > 0 THEN 'no launch is in the trace of ' || tw_about(unlaunched, 'op')
    END AS note
FROM summed
ORDER BY rank, device, stream
