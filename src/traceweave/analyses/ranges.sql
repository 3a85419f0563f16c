-- analysis: ranges | time of NVTX ranges and annotations on the host, and of the GPU work launched in them
-- answers: How long did the GPU work on what each NVTX range or annotation launched?
-- topic: time
-- grain: one row per rank, kind and name of a range
-- within: rank
-- param: kind VARCHAR = 'any' | which ranges
-- choice: kind 'any' | NVTX ranges and annotations
-- choice: kind 'nvtx' | NVTX ranges
-- choice: kind 'annotation' | annotations of the PyTorch profiler (record_function, optimizer steps, ProfilerStep)
-- choice: kind 'graph' | annotations of CUDA graphs (torch.cuda.graph_annotations)
-- choice: kind 'op' | PyTorch operators
-- choice: kind 'python' | Python functions
-- param: step BIGINT = NULL | only ranges that began in this step; NULL: all
-- column: rank INTEGER | global rank; NULL for a process that is not a rank
-- column: kind VARCHAR | 'nvtx', 'annotation', 'graph', 'op' or 'python'
-- column: domain VARCHAR | NVTX domain; NULL for the default one and for other kinds
-- column: range VARCHAR | name; the numbers that emit_nvtx appends (seq, op_id, sizes) are not part of it
-- column: count BIGINT | ranges; of graphs, replays
-- column: host_total_ns BIGINT | sum of their durations on the host; NULL of graphs, as these
-- column: host_min_ns BIGINT | shortest
-- column: host_p50_ns BIGINT | median
-- column: host_max_ns BIGINT | longest
-- column: with_gpu BIGINT | those of them that launched GPU work
-- column: with_gpu_host_ns BIGINT | sum of the durations on the host of these
-- column: gpu_span_total_ns BIGINT | sum over them of the time from the first start to the last end of their GPU work; NULL without any
-- column: gpu_span_min_ns BIGINT | shortest
-- column: gpu_span_p50_ns BIGINT | median
-- column: gpu_span_max_ns BIGINT | longest
-- column: gpu_ops_ns BIGINT | sum of the durations of the GPU ops launched in them; NULL without any
-- column: launches BIGINT | launching calls in them that had GPU work
-- column: gpu_ops BIGINT | GPU ops launched in them
-- column: note VARCHAR | why the GPU's columns are NULL; NULL if they are not
-- main: rank, kind, range, count, host_total_ns, host_p50_ns, gpu_span_total_ns, gpu_span_p50_ns, gpu_ops, note
-- order: gpu_span_total_ns DESC NULLS LAST, rank, kind, domain, range
-- caveat: the GPU span is that of nsys stats nvtx_gpu_proj_sum: what runs or idles in between counts too, whoever launched it, and ranges inside are not subtracted.
-- caveat: a launch belongs to a range if its call began in it on the same thread; nsys also wants it to end in it, which differs for ranges that do not nest (nvtxRangeStart).
-- caveat: work that other threads launch, such as the backward pass, is not in the range of the thread that waits for it.
WITH ranges AS MATERIALIZED (
    SELECT
        rank,
        coalesce(rank, -1) AS rank_key,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        kind,
        CASE WHEN kind = 'nvtx' THEN args ->> 'domain' END AS domain,
        name AS range,
        start_local_ns AS start_ns,
        duration_ns
    FROM host_ops
    WHERE (kind = {{ param('kind') }} OR ({{ param('kind') }} = 'any' AND kind IN ('nvtx', 'annotation')))
        AND ({{ param('step') }} IS NULL OR step = {{ param('step') }})
),
launches AS (
    SELECT
        coalesce(h.rank, -1) AS rank_key,
        coalesce(h.pid, -1) AS pid,
        coalesce(h.tid, -1) AS tid,
        h.start_local_ns AS start_ns,
        g.gpu_start_ns,
        g.gpu_end_ns,
        g.gpu_ops_ns,
        g.gpu_ops
    FROM (
        SELECT
            launch_op_id,
            min(start_local_ns) AS gpu_start_ns,
            max(start_local_ns + duration_ns) AS gpu_end_ns,
            sum(duration_ns) AS gpu_ops_ns,
            count(*) AS gpu_ops
        FROM gpu_ops
        WHERE launch_op_id IS NOT NULL
        GROUP BY launch_op_id
    ) AS g
    JOIN host_ops AS h ON h.op_id = g.launch_op_id
),
-- The starts and ends of the ranges cut the time of their thread into pieces; a range is a run of whole pieces. So the
-- launches, many more than ranges, are put together per piece first.
cuts AS MATERIALIZED (
    SELECT DISTINCT rank_key, pid, tid, at_ns
    FROM (
        SELECT rank_key, pid, tid, unnest([start_ns, start_ns + duration_ns + 1]) AS at_ns FROM ranges
    )
),
pieces AS (
    SELECT
        c.rank_key,
        c.pid,
        c.tid,
        c.at_ns,
        min(l.gpu_start_ns) AS gpu_start_ns,
        max(l.gpu_end_ns) AS gpu_end_ns,
        CAST(sum(l.gpu_ops_ns) AS BIGINT) AS gpu_ops_ns,
        CAST(sum(l.gpu_ops) AS BIGINT) AS gpu_ops,
        count(*) AS launches
    FROM launches AS l
    ASOF JOIN cuts AS c ON c.rank_key = l.rank_key AND c.pid = l.pid AND c.tid = l.tid AND l.start_ns >= c.at_ns
    GROUP BY c.rank_key, c.pid, c.tid, c.at_ns
),
-- ranges and pieces of a thread on one line: a range's frame is what lies from its start to its end
lined AS (
    SELECT
        rank_key, pid, tid, start_ns AS at_ns, duration_ns AS length_ns, NULL AS gpu_start_ns, NULL AS gpu_end_ns,
        0 AS gpu_ops_ns, 0 AS gpu_ops, 0 AS launches, rank, kind, domain, range, duration_ns
    FROM ranges
    UNION ALL
    SELECT
        rank_key, pid, tid, at_ns, 0, gpu_start_ns, gpu_end_ns,
        gpu_ops_ns, gpu_ops, launches, NULL, NULL, NULL, NULL, NULL
    FROM pieces
),
projected AS (
    SELECT
        rank,
        kind,
        domain,
        range,
        duration_ns,
        max(gpu_end_ns) OVER inside - min(gpu_start_ns) OVER inside AS gpu_span_ns,
        sum(gpu_ops_ns) OVER inside AS gpu_ops_ns,
        sum(gpu_ops) OVER inside AS gpu_ops,
        sum(launches) OVER inside AS launches
    FROM lined
    WINDOW inside AS (
        PARTITION BY rank_key, pid, tid ORDER BY at_ns RANGE BETWEEN CURRENT ROW AND length_ns FOLLOWING
    )
    UNION ALL BY NAME
    SELECT
        rank, 'graph' AS kind, range, max(start_ns + duration_ns) - min(start_ns) AS gpu_span_ns, sum(duration_ns) AS gpu_ops_ns,
        count(*) AS gpu_ops, count(DISTINCT launch_op_id) AS launches
    FROM (
        SELECT
            rank, source_id, correlation, launch_op_id, start_local_ns AS start_ns, duration_ns,
            args ->> 'name' || coalesce(' (' || (args ->> 'autograd_phase') || ')', '') AS range
        FROM gpu_ops
        WHERE graph_node IS NOT NULL AND {{ param('kind') }} IN ('graph', 'any') AND ({{ param('step') }} IS NULL OR step = {{ param('step') }})
    )
    WHERE range IS NOT NULL
    -- the ops of a replay have the number of its launch, also where that is not recorded
    GROUP BY rank, source_id, correlation, launch_op_id, range
)
SELECT
    rank,
    kind,
    domain,
    range,
    count(*) AS count,
    CAST(sum(duration_ns) AS BIGINT) AS host_total_ns,
    min(duration_ns) AS host_min_ns,
    tw_percentile(duration_ns, 0.5) AS host_p50_ns,
    max(duration_ns) AS host_max_ns,
    count(gpu_span_ns) AS with_gpu,
    CAST(CASE WHEN kind <> 'graph' THEN coalesce(sum(CASE WHEN gpu_span_ns IS NOT NULL THEN duration_ns END), 0) END AS BIGINT) AS with_gpu_host_ns,
    CAST(sum(gpu_span_ns) AS BIGINT) AS gpu_span_total_ns,
    min(gpu_span_ns) AS gpu_span_min_ns,
    tw_percentile(gpu_span_ns, 0.5) AS gpu_span_p50_ns,
    max(gpu_span_ns) AS gpu_span_max_ns,
    CAST(CASE WHEN count(gpu_span_ns) > 0 THEN sum(gpu_ops_ns) END AS BIGINT) AS gpu_ops_ns,
    CAST(sum(launches) AS BIGINT) AS launches,
    CAST(sum(gpu_ops) AS BIGINT) AS gpu_ops,
    CASE WHEN count(gpu_span_ns) = 0 THEN 'no GPU work was launched in it' END AS note
FROM projected
WHERE kind IS NOT NULL
GROUP BY rank, kind, domain, range
ORDER BY gpu_span_total_ns DESC NULLS LAST, rank, kind, domain, range
