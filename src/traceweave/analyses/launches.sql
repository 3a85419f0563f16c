-- analysis: launches | from the API call to the end of its GPU work: call, queueing, execution
-- answers: Is launching the bottleneck: slow calls, work that ends before its call returns, or work that starts late?
-- topic: time
-- grain: one row per rank, device, launching thread, API call and name of the GPU work
-- needs: gpu_ops
-- within: rank
-- param: ops VARCHAR = 'all' | which GPU work counts
-- choice: ops 'all' | kernels, copies and memsets
-- choice: ops 'kernels' | kernels only, as nsys stats cuda_kern_exec_sum
-- param: slow_call_ns BIGINT = 50000 | a call that takes longer is slow
-- param: late_start_ns BIGINT = 100000 | work that starts longer after its call returned is late
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number
-- column: pid BIGINT | process that launched
-- column: tid BIGINT | thread that launched
-- column: call VARCHAR | the API call
-- column: op VARCHAR | name of the kernel or copy
-- column: count BIGINT | GPU ops
-- column: queued BIGINT | those of them that started when the call had returned, or later: they waited in a queue
-- column: call_total_ns BIGINT | sum of the durations of the calls, counted per GPU op
-- column: call_mean_ns DOUBLE | mean duration of the call
-- column: call_min_ns BIGINT | shortest
-- column: call_p50_ns BIGINT | median
-- column: call_p95_ns BIGINT | 95th percentile
-- column: call_max_ns BIGINT | longest
-- column: queue_total_ns BIGINT | time from the return of the call to the start of the work, sum over `queued`; an op that started before adds nothing
-- column: queue_mean_ns DOUBLE | mean over `queued`; NULL if none
-- column: queue_min_ns BIGINT | shortest
-- column: queue_p50_ns BIGINT | median over `queued`
-- column: queue_p95_ns BIGINT | 95th percentile over `queued`
-- column: queue_max_ns BIGINT | longest
-- column: op_total_ns BIGINT | sum of the durations on the device
-- column: op_mean_ns DOUBLE | mean duration on the device
-- column: op_min_ns BIGINT | shortest
-- column: op_p50_ns BIGINT | median
-- column: op_p95_ns BIGINT | 95th percentile
-- column: op_max_ns BIGINT | longest
-- column: total_mean_ns DOUBLE | mean time from the start of the call to the end of the work, or of the call if that is later
-- column: total_min_ns BIGINT | shortest
-- column: total_p50_ns BIGINT | median
-- column: total_max_ns BIGINT | longest
-- column: short_ops BIGINT | ops shorter than their own call: launching them costs more than they do
-- column: slow_calls BIGINT | ops whose call took longer than slow_call_ns
-- column: late_ops BIGINT | ops that started more than late_start_ns after the return of their call
-- main: rank, call, op, count, call_p50_ns, queue_p50_ns, op_total_ns, short_ops, late_ops
-- order: op_total_ns DESC, rank, device, pid, tid, call, op
-- caveat: only work whose launching call is in the trace; a call that launches several ops (a CUDA graph) counts once for each.
-- caveat: late work is not a problem if the queue is full on purpose: on a busy device all queued work is late.
-- caveat: nsys stats counts every row that shares the correlation id, recorded backtraces included, which doubles its counts in some exports.
WITH launched AS (
    SELECT
        rank,
        device,
        launch_pid AS pid,
        launch_tid AS tid,
        launch_call AS call,
        name AS op,
        launch_duration_ns AS call_ns,
        duration_ns AS op_ns,
        start_local_ns - launch_start_local_ns - launch_duration_ns AS after_ns
    FROM gpu_ops
    WHERE launch_start_local_ns IS NOT NULL AND ({{ param('ops') }} = 'all' OR kind = 'kernel')
),
timed AS (
    SELECT
        *,
        CASE WHEN after_ns >= 0 THEN after_ns END AS queue_ns,
        call_ns + greatest(after_ns + op_ns, 0) AS total_ns
    FROM launched
),
summed AS (
    SELECT
        rank,
        device,
        pid,
        tid,
        call,
        op,
        count(*) AS count,
        count(queue_ns) AS queued,
        CAST(sum(call_ns) AS BIGINT) AS call_total_ns,
        min(call_ns) AS call_min_ns,
        tw_percentile(call_ns, [0.5, 0.95]) AS call_percentiles,
        max(call_ns) AS call_max_ns,
        CAST(coalesce(sum(queue_ns), 0) AS BIGINT) AS queue_total_ns,
        min(queue_ns) AS queue_min_ns,
        tw_percentile(queue_ns, [0.5, 0.95]) AS queue_percentiles,
        max(queue_ns) AS queue_max_ns,
        CAST(sum(op_ns) AS BIGINT) AS op_total_ns,
        min(op_ns) AS op_min_ns,
        tw_percentile(op_ns, [0.5, 0.95]) AS op_percentiles,
        max(op_ns) AS op_max_ns,
        CAST(sum(total_ns) AS BIGINT) AS total_total_ns,
        min(total_ns) AS total_min_ns,
        tw_percentile(total_ns, 0.5) AS total_p50_ns,
        max(total_ns) AS total_max_ns,
        CAST(sum(CAST(op_ns < call_ns AS INTEGER)) AS BIGINT) AS short_ops,
        CAST(sum(CAST(call_ns > {{ param('slow_call_ns') }} AS INTEGER)) AS BIGINT) AS slow_calls,
        CAST(sum(CAST(after_ns > {{ param('late_start_ns') }} AS INTEGER)) AS BIGINT) AS late_ops
    FROM timed
    GROUP BY rank, device, pid, tid, call, op
)
SELECT
    rank,
    device,
    pid,
    tid,
    call,
    op,
    count,
    queued,
    call_total_ns,
    tw_ratio(call_total_ns, count) AS call_mean_ns,
    call_min_ns,
    call_percentiles[1] AS call_p50_ns,
    call_percentiles[2] AS call_p95_ns,
    call_max_ns,
    queue_total_ns,
    tw_ratio(queue_total_ns, queued) AS queue_mean_ns,
    queue_min_ns,
    queue_percentiles[1] AS queue_p50_ns,
    queue_percentiles[2] AS queue_p95_ns,
    queue_max_ns,
    op_total_ns,
    tw_ratio(op_total_ns, count) AS op_mean_ns,
    op_min_ns,
    op_percentiles[1] AS op_p50_ns,
    op_percentiles[2] AS op_p95_ns,
    op_max_ns,
    tw_ratio(total_total_ns, count) AS total_mean_ns,
    total_min_ns,
    total_p50_ns,
    total_max_ns,
    short_ops,
    slow_calls,
    late_ops
FROM summed
ORDER BY op_total_ns DESC, rank, device, pid, tid, call, op
