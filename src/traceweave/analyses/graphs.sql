-- analysis: graphs | launches of CUDA graphs and what they run
-- answers: What do CUDA graph launches run, how long does it take, and how many launches do they save?
-- topic: time
-- grain: one row per rank, device, launching call, graph and number of GPU ops of a launch
-- within: rank
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number; NULL for launches without GPU ops in the trace
-- column: call VARCHAR | the API call that launched; NULL if the launch is not in the trace
-- column: graph VARCHAR | number of the graph in the trace; NULL if it has none
-- column: ops_per_launch BIGINT | GPU ops that one launch ran
-- column: launches BIGINT | launches; NULL if they are not in the trace
-- column: gpu_ops BIGINT | GPU ops of all of them
-- column: kernel_names BIGINT | different names among them
-- column: streams BIGINT | streams they ran on
-- column: device_ns BIGINT | sum of the durations of the GPU ops
-- column: span_total_ns BIGINT | sum over the launches of the time from the first start to the last end of their GPU ops; NULL if the launches are not in the trace
-- column: span_p50_ns BIGINT | median
-- column: idle_in_span_ns BIGINT | span_total_ns minus the time in which any op of the launch ran; NULL like it
-- column: call_total_ns BIGINT | time of the host in the launching calls
-- column: call_p50_ns BIGINT | median
-- column: call_per_op_ns DOUBLE | call_total_ns / gpu_ops: what a launch cost per op, to compare with call_mean_ns of launches
-- column: launches_saved BIGINT | gpu_ops - launches: calls that the host did not make
-- column: note VARCHAR | what the trace hides; NULL if nothing
-- main: rank, call, graph, ops_per_launch, launches, device_ns, span_p50_ns, idle_in_span_ns, call_p50_ns, note
-- order: device_ns DESC NULLS LAST, rank, device, call, graph, ops_per_launch
-- caveat: what an op inside a graph belongs to only its annotations tell: ranges -p kind=graph.
-- caveat: nsys with --cuda-graph-trace=graph (its default) records a graph as one span named 'CUDA graph': kernels and collectives inside are not in the trace.
WITH graph_calls AS MATERIALIZED (
    SELECT rank, op_id, name, duration_ns
    FROM host_ops
    WHERE kind IN ('runtime', 'driver') AND name IN (SELECT name FROM tw_call_names WHERE launches = 'graph')
),
ops AS (
    SELECT
        g.rank,
        g.device,
        coalesce(g.args ->> 'graph id', g.args ->> 'graph exec id') AS graph,
        c.op_id AS call_id,
        g.name,
        g.stream,
        g.start_local_ns AS start_ns,
        g.start_local_ns + g.duration_ns AS end_ns,
        g.duration_ns,
        max(g.start_local_ns + g.duration_ns) OVER (
            PARTITION BY c.op_id ORDER BY g.start_local_ns, g.duration_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM tw_graph_ops() AS g
    LEFT JOIN graph_calls AS c ON c.op_id = g.launch_op_id
),
launched AS (
    SELECT
        rank,
        device,
        graph,
        call_id,
        CASE WHEN call_id IS NOT NULL THEN count(*) END AS ops_per_launch,
        count(*) AS gpu_ops,
        list(DISTINCT name) AS names,
        list(DISTINCT stream) AS streams,
        CAST(sum(duration_ns) AS BIGINT) AS device_ns,
        CASE WHEN call_id IS NOT NULL THEN max(end_ns) - min(start_ns) END AS span_ns,
        CASE WHEN call_id IS NOT NULL THEN CAST(sum(tw_added_ns(start_ns, end_ns, covered_until_ns)) AS BIGINT) END AS busy_ns
    FROM ops
    GROUP BY rank, device, graph, call_id
    UNION ALL BY NAME
    SELECT rank, op_id AS call_id, 0 AS ops_per_launch, 0 AS gpu_ops
    FROM graph_calls
    WHERE op_id NOT IN (SELECT call_id FROM ops WHERE call_id IS NOT NULL)
),
summed AS (
    SELECT
        l.rank,
        l.device,
        c.name AS call,
        l.graph,
        l.ops_per_launch,
        nullif(count(l.call_id), 0) AS launches,
        CAST(sum(l.gpu_ops) AS BIGINT) AS gpu_ops,
        coalesce(len(list_distinct(flatten(list(l.names)))), 0) AS kernel_names,
        coalesce(len(list_distinct(flatten(list(l.streams)))), 0) AS streams,
        CAST(sum(l.device_ns) AS BIGINT) AS device_ns,
        CAST(sum(l.span_ns) AS BIGINT) AS span_total_ns,
        tw_percentile(l.span_ns, 0.5) AS span_p50_ns,
        CAST(sum(l.span_ns - l.busy_ns) AS BIGINT) AS idle_in_span_ns,
        CAST(sum(c.duration_ns) AS BIGINT) AS call_total_ns,
        tw_percentile(c.duration_ns, 0.5) AS call_p50_ns,
        bool_or(list_contains(l.names, 'CUDA graph')) AS is_opaque
    FROM launched AS l LEFT JOIN graph_calls AS c ON c.op_id = l.call_id
    GROUP BY l.rank, l.device, c.name, l.graph, l.ops_per_launch
)
SELECT
    rank,
    device,
    call,
    graph,
    ops_per_launch,
    launches,
    gpu_ops,
    kernel_names,
    streams,
    device_ns,
    span_total_ns,
    span_p50_ns,
    idle_in_span_ns,
    call_total_ns,
    call_p50_ns,
    tw_ratio(call_total_ns, gpu_ops) AS call_per_op_ns,
    CASE WHEN gpu_ops > 0 AND NOT is_opaque THEN gpu_ops - launches END AS launches_saved,
    CASE
        WHEN gpu_ops = 0 THEN 'no GPU op of these launches is in the trace'
        WHEN is_opaque THEN 'recorded as one span: kernels and collectives inside are not in the trace'
        WHEN launches IS NULL THEN 'the launching calls are not in the trace'
    END AS note
FROM summed
ORDER BY device_ns DESC NULLS LAST, rank, device, call, graph, ops_per_launch
