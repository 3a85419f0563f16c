-- Stretches in which nothing ran on a device or stream, and why; all times on each rank's own clock.

-- macro: tw_gaps(window_kind, per, min_gap_ns, kernel_delay_ns, host_only) | the gaps of the analysis `gaps`, without names: gap_id, rank, timeline, device, lane (-1: no number), step, start_ns, end_ns, free_from_ns, before_op_id, pid and tid of the launching thread, launch_start_ns, sync_op, waited_for_op_id, cause; host_only: leave out those whose next op was queued, mostly kernel_delay, which are most by far
-- reads: device_ops, gpu_ops, host_ops, steps
CREATE TEMP MACRO IF NOT EXISTS tw_gaps(window_kind, per, min_gap_ns, kernel_delay_ns, host_only) AS TABLE
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
-- read anew wherever it is used: cheaper than to keep
ops AS NOT MATERIALIZED (
    SELECT
        rank,
        timeline,
        coalesce(device, -1) AS device,
        CASE WHEN per = 'stream' THEN coalesce(stream, -1) ELSE -1 END AS lane,
        op_id,
        launch_op_id,
        start_ns,
        end_ns
    FROM tw_own_ops()
),
ends AS (
    SELECT rank, timeline, device, lane, max(end_ns) AS end_ns
    FROM ops
    GROUP BY rank, timeline, device, lane
),
-- every stretch of nothing; NULL: it has no beginning (before the first op) or no end (after the last one)
holes AS (
    SELECT rank, timeline, device, lane, op_id AS before_op_id, launch_op_id, free_from_ns, start_ns AS free_until_ns
    FROM (
        SELECT
            *,
            max(end_ns) OVER (
                PARTITION BY rank, device, lane ORDER BY start_ns, op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS free_from_ns
        FROM ops
    )
    WHERE free_from_ns IS NULL OR start_ns - free_from_ns >= greatest(min_gap_ns, 1)
    UNION ALL
    -- at the end of everything, the thread to watch is the one that launched the last op
    SELECT ends.rank, ends.timeline, ends.device, ends.lane, NULL, arg_max(launch_op_id, op_id), ends.end_ns, NULL
    FROM ends JOIN ops USING (rank, device, lane, end_ns)
    GROUP BY ALL
),
-- windows follow each other, so a hole meets those from the one it begins in to the one it ends in: mostly the same
begun AS (
    SELECT h.*, a.number, coalesce(h.free_until_ns <= a.end_ns, FALSE) AS is_inside
    FROM holes AS h ASOF LEFT JOIN windows AS a ON a.rank = h.rank AND h.free_from_ns >= a.start_ns
),
spread AS (
    SELECT * FROM begun WHERE is_inside
    UNION ALL
    SELECT h.* REPLACE (unnest(range(coalesce(h.number, 1), z.number + 1)) AS number)
    FROM (SELECT * FROM begun WHERE NOT is_inside) AS h
    ASOF JOIN windows AS z ON z.rank = h.rank AND coalesce(h.free_until_ns, 9223372036854775807) > z.start_ns
),
cut AS (
    SELECT
        s.rank,
        s.timeline,
        s.device,
        s.lane,
        w.step,
        greatest(s.free_from_ns, w.start_ns) AS start_ns,
        least(s.free_until_ns, w.end_ns) AS end_ns,
        s.free_from_ns,
        s.before_op_id,
        s.free_until_ns,
        CASE WHEN s.timeline = 'cpu' THEN s.before_op_id ELSE s.launch_op_id END AS launch_op_id
    FROM spread AS s JOIN windows AS w USING (rank, number)
    WHERE least(s.free_until_ns, w.end_ns) - greatest(s.free_from_ns, w.start_ns) >= greatest(min_gap_ns, 1)
),
-- the thread to watch is the one that launches the next op
launched AS MATERIALIZED (
    SELECT row_number() OVER () AS gap_id, *
    FROM (
        SELECT
            *,
            -- the start of the call decides, not its end: a kernel often starts before the call that launches it returns
            coalesce(
                launch_start_ns >= coalesce(free_from_ns, start_ns)
                OR 2 * tw_shared_ns(launch_start_ns, launch_end_ns, start_ns, end_ns) > end_ns - start_ns,
                FALSE
            ) AS is_late
        FROM (
            SELECT
                cut.rank,
                cut.timeline,
                cut.device,
                cut.lane,
                cut.step,
                cut.start_ns,
                cut.end_ns,
                cut.free_from_ns,
                cut.before_op_id,
                coalesce(cut.free_until_ns, cut.end_ns) - coalesce(cut.free_from_ns, cut.start_ns) AS hole_ns,
                CASE WHEN call.op_id IS NOT NULL THEN coalesce(call.pid, -1) END AS pid,
                CASE WHEN call.op_id IS NOT NULL THEN coalesce(call.tid, -1) END AS tid,
                CASE WHEN cut.before_op_id IS NOT NULL AND cut.timeline = 'gpu' THEN call.start_local_ns END AS launch_start_ns,
                CASE WHEN cut.before_op_id IS NOT NULL AND cut.timeline = 'gpu' THEN call.start_local_ns + call.duration_ns END AS launch_end_ns
            FROM cut LEFT JOIN host_ops AS call ON call.op_id = cut.launch_op_id
        )
    )
    WHERE NOT host_only OR is_late OR launch_start_ns IS NULL
),
-- Work that was queued waits for no host. So these are the gaps for which it matters what the host did.
hosted AS MATERIALIZED (
    SELECT gap_id, rank, pid, tid, start_ns, end_ns, launch_start_ns
    FROM launched
    WHERE pid IS NOT NULL AND (is_late OR launch_start_ns IS NULL)
),
-- a copy to or from memory that is not pinned holds its call up if that returns only when the copy has ended
stalls AS (
    SELECT launch_op_id AS op_id, max(start_local_ns + duration_ns) AS copied_until_ns
    FROM gpu_ops
    WHERE kind = 'memcpy' AND launch_op_id IS NOT NULL AND tw_can_stall(copy_kind, name, args)
    GROUP BY launch_op_id
),
syncs AS (
    SELECT h.rank, coalesce(h.pid, -1) AS pid, coalesce(h.tid, -1) AS tid, h.name,
        h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns
    FROM host_ops AS h
    LEFT JOIN stalls USING (op_id)
    WHERE h.kind IN ('runtime', 'driver', 'op')
        AND (tw_is_sync(h.name) OR h.start_local_ns + h.duration_ns >= stalls.copied_until_ns)
),
-- the call that ran when the gap began, and the one in its middle, which is where one is that covers more than half
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
    SELECT
        rank, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, coalesce(depth, 0) AS depth,
        start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver') AND name IN (SELECT name FROM tw_loading_names())
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
-- nothing of the idle stream itself ends within its gap: what does is another stream's
waited AS (
    SELECT g.gap_id, o.op_id AS waited_for_op_id, o.end_ns AS waited_until_ns
    FROM (SELECT gap_id, rank, device, lane, start_ns, end_ns FROM launched WHERE per = 'stream') AS g
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
    g.free_from_ns,
    g.before_op_id,
    g.pid,
    g.tid,
    g.launch_start_ns,
    s.sync_op,
    w.waited_for_op_id,
    CASE
        WHEN g.timeline = 'cpu' AND l.gap_id IS NOT NULL THEN 'data_loading'
        WHEN g.timeline = 'cpu' OR g.launch_start_ns IS NULL THEN 'unknown'
        WHEN g.is_late AND l.gap_id IS NOT NULL THEN 'data_loading'
        WHEN g.is_late AND s.sync_op IS NOT NULL THEN 'sync'
        WHEN g.is_late THEN 'launch_bound'
        WHEN g.end_ns - w.waited_until_ns <= kernel_delay_ns THEN 'dependency'
        WHEN g.hole_ns <= kernel_delay_ns THEN 'kernel_delay'
        ELSE 'unknown'
    END AS cause
FROM launched AS g
LEFT JOIN synced AS s USING (gap_id)
LEFT JOIN loaded AS l USING (gap_id)
LEFT JOIN waited AS w USING (gap_id);

-- macro: tw_gap_hosts(gaps) | what the launching thread did in the gaps of the relation named `gaps` (gap_id, rank, pid, tid, start_ns, end_ns): gap_id, and name, kind and shared length of the innermost range that covers more than half of the gap, if one does: host_op, host_op_kind, host_op_ns
-- reads: host_ops
CREATE TEMP MACRO IF NOT EXISTS tw_gap_hosts(gaps) AS TABLE
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
