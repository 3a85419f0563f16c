-- analysis: gaps | when nothing ran on a device or stream, why, and what the host did meanwhile
-- answers: Where does the GPU sit idle, for how long, and what keeps it waiting?
-- topic: time
-- grain: one row per gap; a gap that crosses the edge of a window is cut there
-- reads: device_ops, gpu_ops, host_ops, steps
-- param: per VARCHAR = 'device' | what has to be idle
-- choice: per 'device' | nothing runs on any stream of the device
-- choice: per 'stream' | nothing runs on the stream, whatever the others do
-- param: min_gap_ns BIGINT = 1000 | leave out gaps shorter than this; a device needs about 1 us from one queued kernel to the next
-- param: kernel_delay_ns BIGINT = 30000 | a queued op that starts within this time was just being started; a longer gap has another cause
-- param: window VARCHAR = 'device' | the stretch of time in which gaps count, as in breakdown
-- choice: window 'device' | from the step's first GPU op to the next step's first
-- choice: window 'host' | the step's range on the host
-- choice: window 'span' | from the rank's first op to the end of its last; step is NULL
-- column: rank INTEGER | global rank
-- column: device INTEGER | device number; NULL on the cpu timeline
-- column: stream BIGINT | stream, or thread on the cpu timeline; NULL: the whole device
-- column: step BIGINT | step of the window; NULL: the rank's whole span
-- column: start_ns BIGINT | start, common clock
-- column: end_ns BIGINT | end, common clock
-- column: duration_ns BIGINT | length
-- column: cause VARCHAR | 'launch_bound', 'sync', 'data_loading', 'dependency', 'kernel_delay' or 'unknown': see the caveats
-- column: host_op VARCHAR | the innermost operator, annotation, NVTX range or Python function of the launching thread that covers more than half of the gap; NULL if none does
-- column: after_op VARCHAR | the op that ended last before the gap; NULL if there is none
-- column: before_op VARCHAR | the op that ended it; NULL if there is none
-- column: host_op_kind VARCHAR | kind of host_op
-- column: host_op_ns BIGINT | how much of the gap host_op covers
-- column: launch_start_ns BIGINT | start of the call that launched before_op, common clock; NULL if not recorded
-- column: sync_op VARCHAR | synchronizing call that the launching thread was in, whatever the cause; NULL if none
-- column: waited_for_op VARCHAR | per = 'stream': the op of another stream that ended last within the gap
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- column: after_op_id BIGINT | op_id of after_op
-- column: before_op_id BIGINT | op_id of before_op
-- order: rank, device NULLS FIRST, stream NULLS FIRST, start_ns
-- caveat: launch_bound: the call that launched the next op began after the previous op had ended, or took up more than half of the gap; the device had nothing to do.
-- caveat: sync: launch_bound, and the launching thread was in a call that waits for the device when the gap began or for more than half of it: a synchronizing one, or a copy call that returned only when its copy to or from unpinned memory had ended.
-- caveat: data_loading: launch_bound, and a range named like data loading covers more than half of the gap; on the cpu timeline the name alone decides.
-- caveat: dependency: the next op was queued, and an op of another stream ended within the gap, not more than kernel_delay_ns before the next op started. Only per = 'stream' sees it: while another stream runs, the device is not idle.
-- caveat: kernel_delay: the next op was queued, and the gap is not longer than kernel_delay_ns.
-- caveat: unknown: a longer gap with the next op queued and nothing to wait for, a launch that is not in the trace, no op that follows, or a rank without a GPU.
-- caveat: an op without length still ends a gap and begins another.
-- caveat: where step ranges overlap, a gap belongs to the later step.
WITH windows AS MATERIALIZED (
    SELECT
        rank,
        step,
        start_ns,
        least(end_ns, coalesce(lead(start_ns) OVER by_start, end_ns)) AS end_ns,
        row_number() OVER by_start AS number
    FROM tw_windows($window)
    WINDOW by_start AS (PARTITION BY rank ORDER BY start_ns, end_ns, step)
),
ops AS (
    SELECT
        rank,
        timeline,
        coalesce(device, -1) AS device,
        CASE WHEN $per = 'stream' THEN coalesce(stream, -1) ELSE -1 END AS lane,
        op_id,
        launch_op_id,
        start_ns,
        end_ns
    FROM device_ops
),
-- every stretch of nothing; NULL: it has no beginning (before the first op) or no end (after the last one)
holes AS (
    SELECT rank, timeline, device, lane, op_id AS before_op_id, launch_op_id, free_from_ns, start_ns AS free_until_ns
    FROM (
        SELECT
            *,
            max(end_ns) OVER (
                PARTITION BY rank, device, lane ORDER BY start_ns, end_ns, op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS free_from_ns
        FROM ops
    )
    WHERE free_from_ns IS NULL OR start_ns - free_from_ns >= greatest($min_gap_ns, 1)
    UNION ALL
    SELECT rank, min(timeline), device, lane, NULL, NULL, max(end_ns), NULL
    FROM ops
    GROUP BY rank, device, lane
),
-- windows follow each other, so a hole meets those from the one it begins in to the one it ends in
spread AS (
    SELECT h.*, unnest(range(coalesce(a.number, 1), z.number + 1)) AS number
    FROM holes AS h
    ASOF LEFT JOIN windows AS a ON a.rank = h.rank AND h.free_from_ns >= a.start_ns
    ASOF JOIN windows AS z ON z.rank = h.rank AND coalesce(h.free_until_ns, 9223372036854775807) > z.start_ns
),
cut AS MATERIALIZED (
    SELECT
        row_number() OVER () AS gap_id,
        s.rank,
        s.timeline,
        s.device,
        s.lane,
        w.step,
        greatest(s.free_from_ns, w.start_ns) AS start_ns,
        least(s.free_until_ns, w.end_ns) AS end_ns,
        s.free_from_ns,
        s.free_until_ns,
        s.before_op_id,
        CASE WHEN s.timeline = 'cpu' THEN s.before_op_id ELSE s.launch_op_id END AS launch_op_id
    FROM spread AS s JOIN windows AS w USING (rank, number)
    WHERE least(s.free_until_ns, w.end_ns) - greatest(s.free_from_ns, w.start_ns) >= greatest($min_gap_ns, 1)
),
after_ops AS (
    SELECT gap_id, max(op_id) AS after_op_id, arg_max(ops.launch_op_id, op_id) AS launch_op_id
    FROM cut JOIN ops
        ON ops.rank = cut.rank AND ops.device = cut.device AND ops.lane = cut.lane
        AND ops.end_ns = cut.free_from_ns
    GROUP BY gap_id
),
-- the thread to watch is the one that launches the next op; at the end of everything, the one that launched the last
launched AS MATERIALIZED (
    SELECT
        cut.gap_id,
        cut.rank,
        cut.start_ns,
        cut.end_ns,
        coalesce(call.pid, -1) AS pid,
        coalesce(call.tid, -1) AS tid,
        CASE WHEN cut.launch_op_id IS NOT NULL AND cut.timeline = 'gpu' THEN call.start_ns END AS launch_start_ns,
        CASE WHEN cut.launch_op_id IS NOT NULL AND cut.timeline = 'gpu' THEN call.end_ns END AS launch_end_ns
    FROM cut
    LEFT JOIN after_ops USING (gap_id)
    JOIN host_ops AS call ON call.op_id = coalesce(cut.launch_op_id, after_ops.launch_op_id)
),
-- a copy to or from memory that is not pinned holds its call up if that returns only when the copy has ended
stalls AS MATERIALIZED (
    SELECT launch_op_id AS op_id, max(end_ns) AS copied_until_ns
    FROM gpu_ops
    WHERE kind = 'memcpy' AND launch_op_id IS NOT NULL AND tw_can_stall(copy_kind, name, args)
    GROUP BY launch_op_id
),
syncs AS (
    SELECT h.rank, coalesce(h.pid, -1) AS pid, coalesce(h.tid, -1) AS tid, h.name, h.start_ns, h.end_ns
    FROM host_ops AS h
    LEFT JOIN stalls USING (op_id)
    WHERE h.kind IN ('runtime', 'driver', 'op') AND (tw_is_sync(h.name) OR h.end_ns >= stalls.copied_until_ns)
),
-- the call that ran when the gap began, and the one in its middle, which is where one is that covers more than half
moments AS (
    SELECT *, start_ns AS at_ns FROM launched
    UNION ALL
    SELECT *, start_ns + (end_ns - start_ns) // 2 AS at_ns FROM launched
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
-- What covers more than half of a gap is running at its middle, and ranges of one depth of a thread follow each other:
-- so at each depth it can only be the last one that began before the middle. Names come later: they would slow the sort.
ranges AS MATERIALIZED (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        coalesce(depth, 0) AS depth,
        op_id,
        start_ns,
        end_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver') AND 2 * (end_ns - start_ns) > $min_gap_ns
        AND rank IN (SELECT rank FROM launched)
),
levels AS (
    SELECT g.*, g.start_ns + (g.end_ns - g.start_ns) // 2 AS middle_ns, d.depth
    FROM launched AS g
    JOIN (SELECT DISTINCT rank, pid, tid, depth FROM ranges) AS d USING (rank, pid, tid)
),
covering AS (
    SELECT
        l.gap_id,
        l.depth,
        r.op_id,
        tw_shared_ns(r.start_ns, r.end_ns, l.start_ns, l.end_ns) AS shared_ns
    FROM levels AS l
    ASOF JOIN ranges AS r
        ON r.rank = l.rank AND r.pid = l.pid AND r.tid = l.tid AND r.depth = l.depth AND l.middle_ns >= r.start_ns
    WHERE 2 * tw_shared_ns(r.start_ns, r.end_ns, l.start_ns, l.end_ns) > l.end_ns - l.start_ns
),
covered AS (
    SELECT
        c.gap_id,
        arg_max(h.name, c.depth) AS host_op,
        arg_max(h.kind, c.depth) AS host_op_kind,
        arg_max(c.shared_ns, c.depth) AS host_op_ns,
        bool_or(tw_is_data_loading(h.name)) AS is_data_loading
    FROM covering AS c JOIN host_ops AS h USING (op_id)
    GROUP BY c.gap_id
),
-- nothing of the idle stream itself ends within its gap: what does is another stream's
waited AS (
    SELECT cut.gap_id, o.op_id AS waited_for_op_id, o.end_ns AS waited_until_ns
    FROM cut
    ASOF JOIN (SELECT * FROM ops WHERE $per = 'stream' AND timeline = 'gpu') AS o
        ON o.rank = cut.rank AND o.device = cut.device AND cut.end_ns >= o.end_ns
    WHERE o.end_ns > cut.start_ns AND o.lane <> cut.lane
),
judged AS (
    SELECT
        cut.*,
        cut.end_ns - cut.start_ns AS duration_ns,
        g.launch_start_ns,
        -- the start of the call decides, not its end: a kernel often starts before the call that launches it returns
        g.launch_start_ns >= coalesce(cut.free_from_ns, cut.start_ns)
        OR 2 * tw_shared_ns(g.launch_start_ns, g.launch_end_ns, cut.start_ns, cut.end_ns)
            > cut.end_ns - cut.start_ns AS is_launched_late,
        coalesce(c.is_data_loading, FALSE) AS is_data_loading,
        s.sync_op,
        c.host_op,
        c.host_op_kind,
        c.host_op_ns,
        w.waited_for_op_id,
        cut.end_ns - w.waited_until_ns <= $kernel_delay_ns AS is_released,
        coalesce(cut.free_until_ns, cut.end_ns) - coalesce(cut.free_from_ns, cut.start_ns) AS hole_ns,
        a.after_op_id
    FROM cut
    LEFT JOIN launched AS g USING (gap_id)
    LEFT JOIN synced AS s USING (gap_id)
    LEFT JOIN covered AS c USING (gap_id)
    LEFT JOIN waited AS w USING (gap_id)
    LEFT JOIN after_ops AS a USING (gap_id)
)
SELECT
    j.rank,
    nullif(j.device, -1) AS device,
    nullif(j.lane, -1) AS stream,
    j.step,
    j.start_ns,
    j.end_ns,
    j.duration_ns,
    CASE
        WHEN j.timeline = 'cpu' AND j.is_data_loading THEN 'data_loading'
        WHEN j.timeline = 'cpu' OR j.launch_start_ns IS NULL THEN 'unknown'
        WHEN j.is_launched_late AND j.is_data_loading THEN 'data_loading'
        WHEN j.is_launched_late AND j.sync_op IS NOT NULL THEN 'sync'
        WHEN j.is_launched_late THEN 'launch_bound'
        WHEN j.is_released THEN 'dependency'
        WHEN j.hole_ns <= $kernel_delay_ns THEN 'kernel_delay'
        ELSE 'unknown'
    END AS cause,
    j.host_op,
    after_op.name AS after_op,
    before_op.name AS before_op,
    j.host_op_kind,
    j.host_op_ns,
    j.launch_start_ns,
    j.sync_op,
    waited_for_op.name AS waited_for_op,
    j.timeline,
    j.after_op_id,
    j.before_op_id
FROM judged AS j
LEFT JOIN device_ops AS after_op ON after_op.op_id = j.after_op_id
LEFT JOIN device_ops AS before_op ON before_op.op_id = j.before_op_id
LEFT JOIN device_ops AS waited_for_op ON waited_for_op.op_id = j.waited_for_op_id
ORDER BY j.rank, device NULLS FIRST, stream NULLS FIRST, j.start_ns
