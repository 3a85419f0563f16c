-- Stretches in which nothing ran on a device or stream, and why; all times on each rank's own clock.

-- rows: tw_gap_causes() | why a device or stream runs nothing: cause, place (of the cause in lists), whose it is ('host': until the call that launches the next op returns, 'device': after that, NULL: not known), words (what happens, in a few words)
SELECT *
FROM (VALUES
    ('launch_bound', 1, 'host', 'the host launches too late'),
    ('sync', 2, 'host', 'the host had waited for the GPU'),
    ('data_loading', 3, 'host', 'the host waits for data'),
    ('allocator', 4, 'host', 'the host allocates or frees memory of the GPU'),
    ('module_loading', 5, 'host', 'code is loaded onto the GPU'),
    ('compilation', 6, 'host', 'the host compiles code'),
    ('profiler_overhead', 7, 'host', 'the profiler blocks the host'),
    ('dependency', 8, 'device', 'it waits for another stream'),
    ('kernel_delay', 9, 'device', 'GPU start latency (normal)'),
    ('device_delay', 10, 'device', 'GPU blocked although work was queued'),
    ('began_before', 11, 'device', 'it waits for what began before the recording'),
    ('unknown', 12, NULL, 'no launch is recorded'),
    ('short', 13, NULL, 'gaps too short to classify')
) AS causes(cause, place, whose, words);

-- rows: tw_stalls() | what time without compute is due to, in few parts: cause (of exposed_causes, or of idle_causes), part ('launch_starved': the host had launched too little, 'blocked': by a synchronizing call or by what shares a stream, 'dependency': what is launched waits for other work; none of them: it is not known, or start latency)
SELECT unnest(causes) AS cause, part
FROM (VALUES
    ('launch_starved', ['launched_late', 'launch_bound', 'data_loading', 'allocator', 'module_loading', 'compilation', 'profiler_overhead']),
    ('blocked', ['blocked', 'same_stream', 'sync']),
    ('dependency', ['other_ranks', 'input_ready_late', 'nothing_left', 'copies', 'dependency', 'began_before'])
) AS parts(part, causes);

-- rows: tw_gaps(window_kind, per, min_gap_ns, kernel_delay_ns, queued) | the parts of gaps of the analysis `gaps`, without names: gap_id, rank, timeline, device, lane (-1: no number), step, start_ns, end_ns, whole_ns, after_op_id and before_op_id (the op that ended last before the gap, and the one that ended it), pid and tid of the launching thread, launch_start_ns, sync_op, waited_for_op_id, cause, and gaps, gaps_ns and longest_ns: how many parts the row is of, their sum and the longest; queued: what becomes of the parts that are an op's own delay (kernel_delay), most by far: 'each' has its row; 'summed' has one per window, without gap_id (per device only); 'none' has one
WITH windows AS MATERIALIZED (
    SELECT
        rank,
        step,
        start_ns,
        least(end_ns, coalesce(lead(start_ns) OVER by_start, end_ns)) AS end_ns,
        row_number() OVER by_start AS number
    FROM tw_windows(window_kind)
    WINDOW by_start AS (PARTITION BY rank ORDER BY start_ns, end_ns, step)
),
ops AS NOT MATERIALIZED (
    SELECT
        o.rank,
        o.timeline,
        coalesce(o.device, -1) AS device,
        CASE WHEN per = 'stream' THEN coalesce(o.stream, -1) ELSE -1 END AS lane,
        o.op_id,
        o.start_ns,
        -- a device is not idle while what one of its kernels sent is under way
        CASE WHEN per = 'stream' THEN o.end_ns ELSE coalesce(k.start_local_ns + k.duration_ns, o.end_ns) END AS end_ns,
        o.launch_start_ns,
        -- of what was launched before the recording began, the latest moment by which it was
        coalesce(o.launch_end_ns, b.launched_by_ns) AS launch_end_ns
    FROM tw_own_ops() AS o
    LEFT JOIN tw_launched_before AS b ON b.op_id = o.op_id
    LEFT JOIN (SELECT * FROM collectives WHERE receive_op_id IS NOT NULL) AS k ON k.gpu_op_id = o.op_id
),
-- every stretch of nothing, cut at the edges of the windows and where its launch returned (sweeps): it may have no
-- beginning (before the first op) or no end (after the last one, where the thread to watch is the one that launched that)
swept AS MATERIALIZED (
    SELECT
        o.rank,
        o.timeline,
        o.device,
        o.lane,
        sweep_gaps(
            o.starts, o.ends, o.ids, o.called, o.returned,
            w.starts, w.ends,
            [min_gap_ns, CASE queued WHEN 'none' THEN 9223372036854775807 WHEN 'each' THEN -1 ELSE kernel_delay_ns END]
        ) AS found
    FROM (
        SELECT
            rank, timeline, device, lane,
            list(start_ns) AS starts, list(end_ns) AS ends, list(op_id) AS ids,
            list(launch_start_ns) AS called, list(launch_end_ns) AS returned
        FROM ops
        GROUP BY rank, timeline, device, lane
    ) AS o
    JOIN (
        SELECT rank, list(start_ns ORDER BY number) AS starts, list(end_ns ORDER BY number) AS ends FROM windows GROUP BY rank
    ) AS w USING (rank)
),
-- launched, and running within kernel_delay_ns
summed AS (
    SELECT s.rank, s.timeline, s.device, s.lane, w.step, s.gaps, s.gaps_ns, s.longest_ns
    FROM (
        SELECT
            rank,
            timeline,
            device,
            lane,
            unnest(found.queued_number) AS number,
            unnest(found.queued_gaps) AS gaps,
            unnest(found.queued_ns) AS gaps_ns,
            unnest(found.queued_longest_ns) AS longest_ns
        FROM swept
    ) AS s
    JOIN windows AS w USING (rank, number)
    WHERE queued = 'summed'
),
cut AS MATERIALIZED (
    SELECT s.* EXCLUDE (number), w.step, row_number() OVER () AS gap_id
    FROM (
        SELECT
            rank,
            timeline,
            device,
            lane,
            unnest(found.number) AS number,
            unnest(found.whose) AS whose,
            unnest(found.start_ns) AS start_ns,
            unnest(found.end_ns) AS end_ns,
            unnest(found.whole_ns) AS whole_ns,
            nullif(unnest(found.free_from_ns), -9223372036854775807) AS free_from_ns,
            nullif(unnest(found.free_until_ns), -9223372036854775807) AS free_until_ns,
            nullif(unnest(found.after_op_id), -1) AS after_op_id,
            nullif(unnest(found.before_op_id), -1) AS before_op_id,
            nullif(unnest(found.watched_op_id), -1) AS watched_op_id,
            nullif(unnest(found.launch_start_ns), -9223372036854775807) AS launch_start_ns,
            nullif(unnest(found.launch_end_ns), -9223372036854775807) AS launch_end_ns
        FROM swept
    ) AS s
    JOIN windows AS w USING (rank, number)
),
-- the thread to watch is the one that launches the next op; on the cpu timeline the one that runs it
threads AS (
    SELECT op_id, coalesce(launch_pid, -1) AS pid, coalesce(launch_tid, -1) AS tid
    FROM gpu_ops
    WHERE launch_start_local_ns IS NOT NULL AND op_id IN (SELECT watched_op_id FROM cut)
    UNION ALL
    SELECT op_id, coalesce(pid, -1), coalesce(tid, -1)
    FROM host_ops
    WHERE op_id IN (SELECT watched_op_id FROM cut WHERE timeline = 'cpu')
),
parts AS MATERIALIZED (
    SELECT
        cut.* EXCLUDE (whose, free_from_ns, free_until_ns, watched_op_id, launch_end_ns),
        CASE whose WHEN 1 THEN 'host' WHEN 2 THEN 'device' END AS whose,
        -- what lay between the end of the last op, or the return of the call, and the start of this op
        free_until_ns - greatest(free_from_ns, launch_end_ns) AS delay_ns,
        threads.pid,
        threads.tid
    FROM cut LEFT JOIN threads ON threads.op_id = cut.watched_op_id
),
-- What was launched waits for no host. So these are the parts for which it matters what the host did.
hosted AS MATERIALIZED (
    SELECT gap_id, rank, pid, tid, start_ns, end_ns, launch_start_ns
    FROM parts
    WHERE pid IS NOT NULL AND whose IS DISTINCT FROM 'device'
),
copies AS MATERIALIZED (
    SELECT
        op_id, rank, launch_op_id, launch_pid, launch_tid, launch_call, launch_start_local_ns AS start_ns,
        launch_start_local_ns + launch_duration_ns AS end_ns, copy_kind, name, start_local_ns + duration_ns AS copied_until_ns,
        tw_host_memory(name, NULL) IS NOT NULL AS is_named
    FROM gpu_ops
    WHERE kind = 'memcpy' AND launch_start_local_ns IS NOT NULL
),
stalls AS (
    SELECT op_id FROM copies WHERE is_named AND tw_can_stall(copy_kind, name, NULL)
    UNION ALL
    -- arguments are long: they are read only where the name does not say it
    SELECT c.op_id
    FROM (SELECT * FROM copies WHERE NOT is_named) AS c
    JOIN (SELECT op_id, args FROM gpu_ops WHERE kind = 'memcpy') AS a USING (op_id)
    WHERE tw_can_stall(c.copy_kind, c.name, a.args)
),
syncs AS (
    SELECT rank, pid, tid, name, start_ns, end_ns FROM tw_holds WHERE sort = 'sync'
    UNION ALL
    -- a copy to or from memory that is not pinned holds its call up if that returns only when the copy has ended
    SELECT
        any_value(rank), coalesce(any_value(launch_pid), -1), coalesce(any_value(launch_tid), -1), any_value(launch_call),
        any_value(start_ns), any_value(end_ns)
    FROM copies SEMI JOIN stalls USING (op_id)
    GROUP BY launch_op_id
    HAVING any_value(end_ns) >= max(copied_until_ns)
),
-- the call that ran when the part began, and the one in its middle, which is where one is that covers more than half
moments AS (
    SELECT *, start_ns AS at_ns FROM hosted
    UNION ALL
    SELECT *, start_ns + (end_ns - start_ns) // 2 AS at_ns FROM hosted
),
synced AS (
    SELECT m.gap_id, arg_min(s.name, s.start_ns) AS sync_op
    FROM moments AS m
    ASOF JOIN syncs AS s
        ON s.rank = m.rank AND s.pid = m.pid AND s.tid = m.tid AND m.at_ns >= s.start_ns
    WHERE s.end_ns > m.start_ns
        AND s.start_ns < coalesce(m.launch_start_ns, m.end_ns)
        AND (s.start_ns <= m.start_ns
            OR 2 * tw_shared_ns(s.start_ns, s.end_ns, m.start_ns, m.end_ns) > m.end_ns - m.start_ns)
    GROUP BY m.gap_id
),
loading AS MATERIALIZED (
    SELECT rank, pid, tid, depth, start_ns, end_ns FROM tw_holds WHERE sort = 'data_loading'
),
loaded AS (
    SELECT DISTINCT g.gap_id
    FROM (
        SELECT *
        FROM hosted
        JOIN (SELECT DISTINCT rank, pid, tid, depth FROM loading) AS levels USING (rank, pid, tid)
    ) AS g
    ASOF JOIN loading AS r
        ON r.rank = g.rank AND r.pid = g.pid AND r.tid = g.tid AND r.depth = g.depth
        AND g.start_ns + (g.end_ns - g.start_ns) // 2 >= r.start_ns
    WHERE 2 * tw_shared_ns(r.start_ns, r.end_ns, g.start_ns, g.end_ns) > g.end_ns - g.start_ns
),
-- calls and records that hold the host up, each of which may be short: together they can cover most of a part.
-- What the profiler says of its own overhead it says of no thread.
burdens AS MATERIALIZED (
    SELECT rank, pid, tid, sort AS cause, start_ns, end_ns FROM tw_holds WHERE sort NOT IN ('sync', 'data_loading')
),
burdened_parts AS (
    SELECT h.gap_id, h.start_ns, h.end_ns, b.cause, b.rank, b.pid, b.tid
    FROM hosted AS h
    JOIN (SELECT DISTINCT rank, pid, tid, cause FROM burdens) AS b
        ON b.rank = h.rank AND (b.pid IS NULL OR (b.pid = h.pid AND b.tid = h.tid))
),
-- how long the burdens of one sort and thread had run up to the start and the end of each part (sweeps)
carried AS (
    SELECT
        unnest(p.gap_ids) AS gap_id,
        p.cause,
        unnest(p.lengths) AS length_ns,
        unnest(sweep_union_until(b.starts, b.ends, p.until).union_ns)
            - unnest(sweep_union_until(b.starts, b.ends, p.since).union_ns) AS carried_ns
    FROM (
        SELECT
            rank, pid, tid, cause,
            list(gap_id) AS gap_ids, list(start_ns) AS since, list(end_ns) AS until, list(end_ns - start_ns) AS lengths
        FROM burdened_parts
        GROUP BY rank, pid, tid, cause
    ) AS p
    JOIN (
        SELECT rank, pid, tid, cause, list(start_ns) AS starts, list(end_ns) AS ends FROM burdens GROUP BY rank, pid, tid, cause
    ) AS b
        ON b.rank = p.rank AND b.pid IS NOT DISTINCT FROM p.pid AND b.tid IS NOT DISTINCT FROM p.tid AND b.cause = p.cause
),
burdened AS (
    SELECT gap_id, arg_max(cause, (carried_ns, cause)) AS cause
    FROM (SELECT gap_id, cause, sum(carried_ns) AS carried_ns, any_value(length_ns) AS length_ns FROM carried GROUP BY gap_id, cause)
    WHERE 2 * carried_ns > length_ns
    GROUP BY gap_id
),
-- nothing of the idle stream itself ends within its gap: what does is another stream's
waited AS (
    SELECT g.gap_id, o.op_id AS waited_for_op_id, o.end_ns AS waited_until_ns
    FROM (SELECT gap_id, rank, device, lane, start_ns, end_ns FROM parts WHERE per = 'stream') AS g
    ASOF JOIN (SELECT rank, device, lane, op_id, end_ns FROM ops WHERE per = 'stream' AND timeline = 'gpu') AS o
        ON o.rank = g.rank AND o.device = g.device AND g.end_ns >= o.end_ns
    WHERE o.end_ns > g.start_ns AND o.lane <> g.lane
)
SELECT
    g.gap_id,
    g.rank,
    g.timeline,
    g.device,
    g.lane,
    g.step,
    g.start_ns,
    g.end_ns,
    g.whole_ns,
    g.after_op_id,
    g.before_op_id,
    g.pid,
    g.tid,
    g.launch_start_ns,
    s.sync_op,
    w.waited_for_op_id,
    CASE
        WHEN g.timeline = 'cpu' AND l.gap_id IS NOT NULL THEN 'data_loading'
        WHEN g.whose IS NULL THEN 'unknown'
        WHEN g.whose = 'host' AND l.gap_id IS NOT NULL THEN 'data_loading'
        WHEN g.whose = 'host' THEN coalesce(b.cause, CASE WHEN s.sync_op IS NOT NULL THEN 'sync' END, 'launch_bound')
        WHEN g.end_ns - w.waited_until_ns <= kernel_delay_ns THEN 'dependency'
        WHEN g.delay_ns <= kernel_delay_ns THEN 'kernel_delay'
        WHEN f.op_id IS NOT NULL THEN 'began_before'
        ELSE 'device_delay'
    END AS cause,
    1::BIGINT AS gaps,
    g.end_ns - g.start_ns AS gaps_ns,
    g.end_ns - g.start_ns AS longest_ns
FROM parts AS g
LEFT JOIN synced AS s USING (gap_id)
LEFT JOIN loaded AS l USING (gap_id)
LEFT JOIN burdened AS b USING (gap_id)
LEFT JOIN waited AS w USING (gap_id)
-- what a stream runs first may wait for what was there before; of a gap longer than all that was recorded before it, it does
LEFT JOIN tw_first_of_streams AS f ON f.op_id = g.before_op_id AND coalesce(g.start_ns - f.recorded_from_ns < g.end_ns - g.start_ns, TRUE)
UNION ALL
SELECT
    NULL, rank, timeline, device, lane, step, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'kernel_delay',
    gaps, gaps_ns, longest_ns
FROM summed;

-- rows: tw_gap_hosts(gaps) | what the launching thread did in the gaps of the relation named `gaps` (gap_id, rank, pid, tid, start_ns, end_ns): gap_id, and name, kind and shared length of the innermost range that covers more than half of the gap, if one does: host_op, host_op_kind, host_op_ns
-- What covers more than half of a gap is running at its middle, and ranges of one depth of a thread follow each other:
-- so at each depth it can only be the last one that began before the middle. Names come later: they would slow the sort.
WITH ranges AS MATERIALIZED (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        coalesce(depth, 0) AS depth,
        op_id,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver')
        AND 2 * duration_ns > (SELECT min(end_ns - start_ns) FROM query_table(gaps))
),
levels AS (
    SELECT g.gap_id, g.rank, g.pid, g.tid, g.start_ns, g.end_ns, g.start_ns + (g.end_ns - g.start_ns) // 2 AS middle_ns, d.depth
    FROM query_table(gaps) AS g
    JOIN (SELECT DISTINCT rank, pid, tid, depth FROM ranges) AS d USING (rank, pid, tid)
),
covering AS (
    SELECT
        l.gap_id,
        max(l.depth) AS depth,
        arg_max(r.op_id, l.depth) AS op_id,
        arg_max(tw_shared_ns(r.start_ns, r.end_ns, l.start_ns, l.end_ns), l.depth) AS host_op_ns
    FROM levels AS l
    ASOF JOIN ranges AS r
        ON r.rank = l.rank AND r.pid = l.pid AND r.tid = l.tid AND r.depth = l.depth AND l.middle_ns >= r.start_ns
    WHERE 2 * tw_shared_ns(r.start_ns, r.end_ns, l.start_ns, l.end_ns) > l.end_ns - l.start_ns
    GROUP BY l.gap_id
)
SELECT c.gap_id, h.name AS host_op, h.kind AS host_op_kind, c.host_op_ns
FROM covering AS c JOIN host_ops AS h USING (op_id);
