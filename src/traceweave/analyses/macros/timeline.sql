-- The device timeline as a rank's own clock has it.

-- rows: tw_own_ops() | device_ops on each rank's own clock: rank, timeline, op_id, category, name, device, stream, step, start_ns, end_ns, launch_start_ns, launch_end_ns (of the call that launched it)
SELECT
    rank, timeline, op_id, category, name, device, stream, step,
    start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns,
    launch_start_local_ns AS launch_start_ns, launch_start_local_ns + launch_duration_ns AS launch_end_ns
FROM device_ops;

-- rows: tw_launched() | the compute kernels beside what on the host launched each, by op_id in host_ops (NULL: not known): rank, step, name, duration_ns, op_id, kind, called (its name), arguments_hash
SELECT o.rank, o.step, o.name, o.duration_ns, h.op_id, h.kind, h.name AS called, h.arguments_hash
FROM gpu_ops AS o LEFT JOIN host_ops AS l ON l.op_id = o.launch_op_id LEFT JOIN host_ops AS h ON h.op_id = l.parent_id
WHERE o.category = 'compute';

-- rows: tw_graph_ops() | the GPU ops that CUDA or HIP graphs ran: all columns of gpu_ops
SELECT *
FROM gpu_ops
WHERE graph_node IS NOT NULL OR name = 'CUDA graph' OR launch_op_id IN (
    SELECT op_id FROM host_ops
    WHERE kind IN ('runtime', 'driver') AND name IN (SELECT name FROM tw_call_names WHERE launches = 'graph')
);

-- table: tw_timelines | one row per rank with ops on the device timeline: rank, timeline, and from its first op to its last: start_ns and end_ns on its own clock
SELECT rank, min(timeline) AS timeline, min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM tw_own_ops()
GROUP BY rank;

-- table: tw_first_of_streams | the GPU ops that each stream runs before any that is known to have waited for nothing older: those that were launched before the recording began, and the first one launched after that; op_id, and recorded_from_ns, since when the rank is recorded, on its own clock (NULL of the former)
SELECT op_id, NULL AS recorded_from_ns FROM tw_launched_before
UNION ALL
SELECT g.op_id, r.first_local_ns
FROM (
    SELECT rank, arg_min(op_id, (start_local_ns, op_id)) AS op_id
    FROM gpu_ops
    WHERE launch_op_id IS NOT NULL
    GROUP BY rank, device, stream
) AS g
JOIN ranks AS r USING (rank);

-- table: tw_launched_before | GPU ops that were launched before the recording began, as where the host runs ahead of the GPU: op_id, and launched_by_ns, the first recorded launch of the rank, on its own clock
-- Calls are numbered (correlation) in the order in which they are made. In recorded runs two calls of different threads change
-- places by some microseconds at most. A small number may also be that of another process, or of a counter that wrapped: a
-- stream runs what it is given in order, so such an op has to come before the first on its stream whose launch is recorded.
WITH launched AS (
    SELECT
        rank, source_id, coalesce(device, -1) AS device, coalesce(stream, -1) AS stream,
        min(start_local_ns) AS first_ns, min(correlation) AS correlation, arg_min(launch_start_local_ns, correlation) AS called_ns
    FROM gpu_ops
    WHERE launch_op_id IS NOT NULL AND correlation > 0
    GROUP BY ALL
),
firsts AS (
    SELECT *, min(correlation) OVER process AS first_number, min_by(called_ns, correlation) OVER process AS launched_by_ns
    FROM launched
    WINDOW process AS (PARTITION BY rank, source_id)
)
SELECT o.op_id, f.launched_by_ns
FROM gpu_ops AS o
JOIN firsts AS f
    ON f.rank = o.rank AND f.source_id = o.source_id AND f.device = coalesce(o.device, -1) AND f.stream = coalesce(o.stream, -1)
WHERE o.launch_op_id IS NULL AND o.correlation > 0 AND o.correlation < f.first_number AND o.start_local_ns < f.first_ns;
