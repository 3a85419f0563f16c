-- What keeps a host thread from launching, and what names on the host say of that. The words are in the vocabulary; each
-- name is asked once: a condition on the calls or ranges themselves would be tried on every one of them. Replay and the
-- analyses of gaps read the same tables, made when one needs them.

-- table: tw_call_names | one row per name of a call or operator: name, waits_for (what a call that makes its thread wait for the device waits for: 'device', 'stream', 'event', 'copy' or 'operator'), launches ('kernel', 'graph', 'copy' or 'memset'), allocates ('allocate', 'free' or 'release'), loads ('module': device code), captures ('begin' or 'end' of a graph's capture), holds_stream ('event': a stream waits, not the thread); NULL: does not
CREATE OR REPLACE TEMP TABLE tw_call_names AS
SELECT
    name,
    nullif({{ names('synchronizing', 'name') }}, 'no') AS waits_for,
    {{ names('launching', 'name') }} AS launches,
    {{ names('allocating', 'name') }} AS allocates,
    {{ names('loading_code', 'name') }} AS loads,
    {{ names('capturing_graphs', 'name') }} AS captures,
    {{ names('stream_waits', 'name') }} AS holds_stream
FROM (
    SELECT any_value(name) AS name FROM host_ops WHERE kind IN ('runtime', 'driver', 'op') GROUP BY host_ops.name
);

-- table: tw_range_names | one row per name of a host range: name, gets_data ('yes': the training loop gets its next batch, marked by the loader, in a loader's file, or called so; 'no': only looks like it), compiles ('yes': code is compiled), autograd ('gradient': gradients accumulate; 'backward': else of the backward pass), optimizer, sharding ('gradient': FSDP reduces gradients; 'fsdp': else of it), model_parallel (a region of Megatron's); NULL: does not
CREATE OR REPLACE TEMP TABLE tw_range_names AS
SELECT
    name,
    {{ names('data_loading', 'name') }} AS gets_data,
    {{ names('compiling', 'name') }} AS compiles,
    {{ names('autograd_ranges', 'name') }} AS autograd,
    {{ names('optimizer_ranges', 'name') }} AS optimizer,
    {{ names('sharding_ranges', 'name') }} AS sharding,
    {{ names('model_parallel_ranges', 'name') }} AS model_parallel
FROM (
    SELECT any_value(name) AS name FROM host_ops WHERE kind NOT IN ('runtime', 'driver') GROUP BY host_ops.name
);

-- table: tw_idle_calls | calls of a millisecond or more, while the device is idle, that free memory, or are the first of a name that loads code: rank, pid, tid, name, start_ns, end_ns, frees, is_library (the next call of the thread that frees nothing is the first with which a library begins)
CREATE OR REPLACE TEMP TABLE tw_idle_calls AS
WITH long_calls AS (
    SELECT h.rank, h.pid, h.tid, h.name, h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns, TRUE AS frees
    FROM host_ops AS h JOIN (SELECT name FROM tw_call_names WHERE allocates = 'free') AS n USING (name)
    WHERE h.kind IN ('runtime', 'driver') AND h.duration_ns >= 1000000
    UNION ALL
    SELECT rank, pid, tid, name, start_ns, end_ns, FALSE
    FROM (
        SELECT
            h.rank, h.name,
            unnest(arg_min({pid: h.pid, tid: h.tid, start_ns: h.start_local_ns, end_ns: h.start_local_ns + h.duration_ns}, h.start_local_ns))
        FROM host_ops AS h JOIN (SELECT name FROM tw_call_names WHERE loads = 'first') AS n USING (name)
        WHERE h.kind IN ('runtime', 'driver')
        GROUP BY h.rank, h.name
    )
    WHERE end_ns - start_ns >= 1000000
),
idle AS MATERIALIZED (
    FROM long_calls AS c WHERE NOT EXISTS (
        FROM gpu_ops AS g
        WHERE g.rank = c.rank AND g.start_local_ns < c.end_ns AND g.start_local_ns + g.duration_ns > c.start_ns
    )
)
SELECT
    f.*,
    -- what is freed in a loop may be followed by any question, again and again
    coalesce(f.frees AND n.loads = 'library' AND n.start_ns = min(n.start_ns) FILTER (f.frees AND n.loads = 'library') OVER (PARTITION BY f.rank), FALSE) AS is_library
FROM idle AS f
ASOF LEFT JOIN (
    SELECT h.rank, coalesce(h.pid, -1) AS pid, coalesce(h.tid, -1) AS tid, h.start_local_ns AS start_ns, n.loads
    FROM host_ops AS h JOIN (SELECT name, loads FROM tw_call_names WHERE allocates IS DISTINCT FROM 'free') AS n USING (name)
    WHERE h.kind IN ('runtime', 'driver') AND h.rank IN (SELECT rank FROM idle WHERE frees)
) AS n ON n.rank = f.rank AND n.pid = coalesce(f.pid, -1) AND n.tid = coalesce(f.tid, -1) AND f.end_ns <= n.start_ns;

-- table: tw_code_calls | calls that load code onto the device: rank, pid, tid, name, start_ns, end_ns. The first launch of a kernel is one if it took a millisecond or more: the driver loads code when it is first needed. So is the first call that asks about a kernel, or makes a stream, where the device is idle: else it may wait for that. The launch of a graph is none: what it runs was loaded when it was made, and thousands of nodes take as long each time. CUDA's libraries begin with calls that free nothing, which load their code: the device is idle, and it takes a tenth of a second, or a millisecond and what follows asks for the device's properties
CREATE OR REPLACE TEMP TABLE tw_code_calls AS
SELECT h.rank, h.pid, h.tid, h.name, h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns
FROM host_ops AS h JOIN (SELECT name FROM tw_call_names WHERE loads = 'module') AS n USING (name)
WHERE h.kind IN ('runtime', 'driver')
UNION ALL
SELECT l.rank, l.launch_pid, l.launch_tid, l.launch_call, l.launch_start_local_ns, l.launch_start_local_ns + l.launch_duration_ns
FROM (SELECT * FROM gpu_ops WHERE kind = 'kernel' AND launch_duration_ns >= 1000000) AS l
JOIN (SELECT rank, name, min(launch_start_local_ns) AS first_ns FROM gpu_ops WHERE kind = 'kernel' GROUP BY rank, name) AS e
    ON e.rank = l.rank AND e.name = l.name AND e.first_ns = l.launch_start_local_ns
WHERE {{ names('launching', 'l.launch_call') }} IS DISTINCT FROM 'graph'
UNION ALL
SELECT rank, pid, tid, name, start_ns, end_ns
FROM tw_idle_calls
WHERE NOT frees OR end_ns - start_ns >= 100000000 OR is_library;

-- table: tw_pauses_before_code | when a thread made no call for a millisecond or more, until code was loaded or as long again after that: what is loaded has to be made first, on this thread or on others that it waits for, unless it got its data for most of it; rank, pid, tid, start_ns, end_ns. nsys records the calls that load what was made: a launch that loads what is there already ends no such time
CREATE OR REPLACE TEMP TABLE tw_pauses_before_code AS
SELECT p.*
FROM (
    SELECT rank, pid, tid, last_ns AS start_ns, start_local_ns AS end_ns
    FROM (
        SELECT
            rank, pid, tid, start_local_ns,
            max(start_local_ns + duration_ns) OVER (
                PARTITION BY rank, pid, tid ORDER BY start_local_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS last_ns
        FROM host_ops
        WHERE kind IN ('runtime', 'driver') AND rank IN (SELECT rank FROM tw_code_calls)
    )
    WHERE start_local_ns - last_ns >= 1000000
) AS p
ASOF JOIN (
    SELECT rank, start_ns FROM tw_code_calls
    WHERE {{ names('launching', 'name') }} IS NULL OR rank NOT IN (SELECT rank FROM ranks WHERE format = 'nsys')
) AS c ON c.rank = p.rank AND p.start_ns <= c.start_ns
WHERE c.start_ns - p.end_ns <= p.end_ns - p.start_ns AND NOT EXISTS (
    FROM host_ops AS d JOIN (SELECT name FROM tw_range_names WHERE gets_data = 'yes') AS n USING (name)
    WHERE d.rank = p.rank AND d.pid IS NOT DISTINCT FROM p.pid AND d.tid IS NOT DISTINCT FROM p.tid
        AND 2 * (least(d.start_local_ns + d.duration_ns, p.end_ns) - greatest(d.start_local_ns, p.start_ns)) > p.end_ns - p.start_ns
);

-- table: tw_holds | what can keep a host thread from launching: rank, pid and tid (-1: no number; NULL: the record names no thread), depth, sort ('sync': a call that waits for the device, 'data_loading', 'allocator', 'compilation', also in pauses before code is loaded, 'module_loading', 'graph_capture': from the call that begins the capture to the one that ends it, 'profiler_overhead'), name, start_ns, end_ns, on the rank's own clock
CREATE OR REPLACE TEMP TABLE tw_holds AS
SELECT
    h.rank,
    coalesce(h.pid, -1) AS pid,
    coalesce(h.tid, -1) AS tid,
    coalesce(h.depth, 0) AS depth,
    n.sort,
    h.name,
    h.start_local_ns AS start_ns,
    h.start_local_ns + h.duration_ns AS end_ns
FROM host_ops AS h
JOIN (
    SELECT name, 'sync' AS sort, ['call', 'op'] AS among FROM tw_call_names WHERE waits_for IS NOT NULL
    UNION ALL
    SELECT name, 'allocator', ['call'] FROM tw_call_names WHERE allocates IS NOT NULL
    UNION ALL
    SELECT name, 'compilation', ['op', 'range'] FROM tw_range_names WHERE compiles = 'yes'
    UNION ALL
    SELECT name, 'data_loading', ['op', 'range'] FROM tw_range_names WHERE gets_data = 'yes'
) AS n
    ON n.name = h.name
    AND list_contains(n.among, CASE h.kind WHEN 'runtime' THEN 'call' WHEN 'driver' THEN 'call' WHEN 'op' THEN 'op' ELSE 'range' END)
    AND NOT (n.sort = 'allocator' AND (h.rank, h.name, h.start_local_ns) IN (SELECT (rank, name, start_ns) FROM tw_code_calls))
UNION ALL
SELECT rank, coalesce(pid, -1), coalesce(tid, -1), 0, 'module_loading', name, start_ns, end_ns FROM tw_code_calls
UNION ALL
SELECT b.rank, coalesce(b.pid, -1), coalesce(b.tid, -1), 0, 'graph_capture', b.name, b.begun_ns, e.ended_ns
FROM (
    SELECT h.rank, h.pid, h.tid, h.name, h.start_local_ns AS begun_ns
    FROM host_ops AS h JOIN (SELECT name FROM tw_call_names WHERE captures = 'begin') AS n USING (name)
    WHERE h.kind IN ('runtime', 'driver')
) AS b
ASOF JOIN (
    SELECT h.rank, h.pid, h.tid, h.start_local_ns + h.duration_ns AS ended_ns
    FROM host_ops AS h JOIN (SELECT name FROM tw_call_names WHERE captures = 'end') AS n USING (name)
    WHERE h.kind IN ('runtime', 'driver')
) AS e
    ON e.rank = b.rank AND e.pid IS NOT DISTINCT FROM b.pid AND e.tid IS NOT DISTINCT FROM b.tid AND b.begun_ns <= e.ended_ns
UNION ALL
SELECT rank, coalesce(pid, -1), coalesce(tid, -1), 0, 'compilation', NULL, start_ns, end_ns FROM tw_pauses_before_code
UNION ALL
SELECT
    rank, NULL, NULL, 0,
    CASE WHEN {{ names('overhead', 'name') }} = 'module' THEN 'module_loading' ELSE 'profiler_overhead' END,
    name, start_local_ns, start_local_ns + duration_ns
FROM other_events
WHERE category IN ('overhead', 'profiler_overhead') AND duration_ns > 0;
