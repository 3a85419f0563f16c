-- What a host thread did while a device ran nothing.

-- rows: tw_held_up(parts) | what held the launching thread up for most of the parts of gaps in the relation named `parts` (gap_id, rank, device, lane, pid, tid, start_ns, end_ns, launch_start_ns): gap_id, sync_op (the call in which it waited for the GPU), is_late_by_it (that wait, or one before it, can explain most of the part), is_loading (it waited for data), burden (a sort of tw_holds; each may be short)
WITH copies AS MATERIALIZED (
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
    SELECT op_id
    FROM gpu_ops
    WHERE kind = 'memcpy' AND tw_host_memory(name, NULL) IS NULL AND tw_can_stall(copy_kind, name, args)
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
    SELECT *, start_ns AS at_ns FROM query_table(parts)
    UNION ALL
    SELECT *, start_ns + (end_ns - start_ns) // 2 AS at_ns FROM query_table(parts)
),
synced AS (
    SELECT m.gap_id, arg_min(s.name, s.start_ns) AS sync_op, bool_or(c.is_covered) AS is_covered
    FROM moments AS m
    ASOF JOIN syncs AS s
        ON s.rank = m.rank AND s.pid = m.pid AND s.tid = m.tid AND m.at_ns >= s.start_ns
    CROSS JOIN LATERAL (
        SELECT 2 * tw_shared_ns(s.start_ns, s.end_ns, m.start_ns, m.end_ns) > m.end_ns - m.start_ns AS is_covered
    ) AS c
    WHERE s.end_ns > m.start_ns
        AND s.start_ns < coalesce(m.launch_start_ns, m.end_ns)
        AND (s.start_ns <= m.start_ns OR c.is_covered)
    GROUP BY m.gap_id
),
-- A wait lets the host lose at most its own length of a lead. Of that is left, when a part begins, what the parts since the
-- wait began have not taken: how long those before had been in all is what the largest is found by.
idled AS MATERIALIZED (
    SELECT
        gap_id, rank, device, lane, pid, tid, start_ns, end_ns,
        sum(end_ns - start_ns) OVER (PARTITION BY rank, device, lane ORDER BY start_ns) - (end_ns - start_ns) AS before_ns
    FROM query_table(parts)
),
waits AS (
    SELECT s.rank, s.pid, s.tid, l.device, l.lane, s.start_ns, s.end_ns - s.start_ns AS length_ns
    FROM syncs AS s JOIN (SELECT DISTINCT rank, pid, tid, device, lane FROM idled) AS l USING (rank, pid, tid)
),
leads AS MATERIALIZED (
    SELECT
        w.rank, w.pid, w.tid, w.device, w.lane, w.start_ns,
        max(w.length_ns + coalesce(i.before_ns + i.end_ns - i.start_ns, 0)) OVER (
            PARTITION BY w.rank, w.pid, w.tid, w.device, w.lane ORDER BY w.start_ns
        ) AS until_ns
    FROM waits AS w
    ASOF LEFT JOIN idled AS i ON i.rank = w.rank AND i.device = w.device AND i.lane = w.lane AND w.start_ns >= i.start_ns
),
late AS (
    SELECT i.gap_id
    FROM (FROM idled SEMI JOIN synced USING (gap_id)) AS i
    ASOF JOIN leads AS l
        ON l.rank = i.rank AND l.pid = i.pid AND l.tid = i.tid AND l.device = i.device AND l.lane = i.lane AND i.start_ns >= l.start_ns
    WHERE 2 * (l.until_ns - i.before_ns) > i.end_ns - i.start_ns
    UNION
    SELECT gap_id FROM synced WHERE is_covered
),
loading AS MATERIALIZED (
    SELECT rank, pid, tid, depth, start_ns, end_ns FROM tw_holds WHERE sort = 'data_loading'
),
loaded AS (
    SELECT DISTINCT g.gap_id
    FROM (
        SELECT *
        FROM query_table(parts)
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
    FROM query_table(parts) AS h
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
)
SELECT p.gap_id, s.sync_op, t.gap_id IS NOT NULL AS is_late_by_it, l.gap_id IS NOT NULL AS is_loading, b.cause AS burden
FROM query_table(parts) AS p
LEFT JOIN synced AS s USING (gap_id)
LEFT JOIN late AS t USING (gap_id)
LEFT JOIN loaded AS l USING (gap_id)
LEFT JOIN burdened AS b USING (gap_id);

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
