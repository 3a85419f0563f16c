-- Stretches in which nothing ran on a device or stream, and why; all times on each rank's own clock.

-- rows: tw_gap_causes() | why a device or stream runs nothing: cause, place (of the cause in lists), whose it is ('host': until the call that launches the next op returns, 'device': after that, NULL: not known), words (what happens, in a few words), label (the same in two or three; NULL: it is drawn nowhere), words_on_cpu (words where there is no GPU: nothing is launched that could be missing)
SELECT causes.*, CASE WHEN cause = 'unknown' THEN 'no operator, no communication runs' ELSE words END AS words_on_cpu
FROM (VALUES
    ('launch_bound', 1, 'host', 'the host launches too late', 'launched late'),
    ('sync', 2, 'host', 'the host had waited for the GPU', 'sync'),
    ('data_loading', 3, 'host', 'the host waits for data', 'data'),
    ('allocator', 4, 'host', 'the host allocates or frees memory of the GPU', 'allocator'),
    ('module_loading', 5, 'host', 'code is loaded onto the GPU', 'module loading'),
    ('compilation', 6, 'host', 'the host compiles code, or reads its library', 'compilation'),
    ('graph_capture', 7, 'host', 'the host captures a graph', 'graph capture'),
    ('profiler_overhead', 8, 'host', 'the profiler blocks the host', 'profiler'),
    ('dependency', 9, 'device', 'it waits for another stream', 'other stream'),
    ('kernel_delay', 10, 'device', 'GPU start latency (normal)', 'start latency'),
    ('device_delay', 11, 'device', 'GPU blocked although work was queued', 'device delay'),
    ('began_before', 12, 'device', 'it waits for what began before the recording', 'before the recording'),
    ('unknown', 13, NULL, 'no launch is recorded', 'unknown'),
    ('short', 14, NULL, 'gaps too short to classify', NULL)
) AS causes(cause, place, whose, words, label);

-- rows: tw_exposed_causes() | why no compute hides communication: cause (of exposed_causes), place (of the cause in lists), words (why, in a sentence), label (the same in two or three words)
SELECT causes.*
FROM (VALUES
    ('other_ranks', 1, 'it waited for other ranks', 'other ranks'),
    ('same_stream', 2, 'compute was queued before or behind it on its stream', 'same stream'),
    ('launched_late', 3, 'that compute, or the collective, was launched or began later than it could', 'launched late'),
    ('blocked', 4, 'the compute that follows was not launched, as its thread waited for the device', 'host waits'),
    ('input_ready_late', 5, 'it began when its input was there, and compute waits for its result', 'input came late'),
    ('nothing_left', 6, 'compute waits for its result, whenever its input came', 'needed at once'),
    ('copies', 7, 'copies ran before that compute on its stream', 'copies first'),
    ('kernel_delay', 8, 'that compute was launched and free to start: start latency', 'start latency'),
    ('unknown', 9, 'what kept compute from running is not known', 'unknown')
) AS causes(cause, place, words, label);

-- rows: tw_stalls() | what time without compute is due to, in few parts: cause (of exposed_causes, or of idle_causes), part ('launch_starved': the host had launched too little, 'blocked': by a synchronizing call or by what shares a stream, 'dependency': what is launched waits for other work; none of them: it is not known, or start latency)
SELECT unnest(parts.causes) AS cause, parts.part
FROM (VALUES
    ('launch_starved', ['launched_late', 'launch_bound', 'data_loading', 'allocator', 'module_loading', 'compilation', 'graph_capture', 'profiler_overhead']),
    ('blocked', ['blocked', 'same_stream', 'sync']),
    ('dependency', ['other_ranks', 'input_ready_late', 'nothing_left', 'copies', 'dependency', 'began_before'])
) AS parts(part, causes);

-- rows: tw_gaps(window_kind, per, min_gap_ns, kernel_delay_ns, queued) | the parts of gaps of the analysis `gaps`, without names: gap_id, rank, timeline, device, lane (-1: no number), step, start_ns, end_ns, whole_ns, after_op_id and before_op_id (the op that ended last before the gap, and the one that ended it), pid and tid of the launching thread, launch_start_ns, sync_op, waited_for_op_id, cause, and gaps, gaps_ns and longest_ns: how many parts the row is of, their sum and the longest; queued: what becomes of the parts that are an op's own delay (kernel_delay), most by far: 'each' has its row; 'summed' has one per window, without gap_id (per device only); 'none' has one
WITH swept AS MATERIALIZED (
    FROM tw_idle_lanes(window_kind, per, min_gap_ns, kernel_delay_ns, queued)
),
cut AS MATERIALIZED (
    SELECT *, row_number() OVER () AS gap_id
    FROM (
        SELECT
            rank, timeline, device, lane,
            unnest(list_select(steps, found.number)) AS step,
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
    )
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
    SELECT gap_id, rank, device, lane, pid, tid, start_ns, end_ns, launch_start_ns
    FROM parts
    WHERE pid IS NOT NULL AND whose IS DISTINCT FROM 'device'
),
-- nothing of the idle stream itself ends within its gap: what does is another stream's
waited AS (
    SELECT g.gap_id, o.op_id AS waited_for_op_id, o.end_ns AS waited_until_ns
    FROM (SELECT gap_id, rank, device, lane, start_ns, end_ns FROM parts WHERE per = 'stream') AS g
    ASOF JOIN (SELECT rank, device, lane, op_id, end_ns FROM tw_lane_ops(per) WHERE per = 'stream' AND timeline = 'gpu') AS o
        ON o.rank = g.rank AND o.device = g.device AND g.end_ns >= o.end_ns
    WHERE o.end_ns > g.start_ns AND o.lane <> g.lane
)
SELECT
    g.gap_id, g.rank, g.timeline, g.device, g.lane, g.step, g.start_ns, g.end_ns, g.whole_ns, g.after_op_id, g.before_op_id,
    g.pid, g.tid, g.launch_start_ns, h.sync_op, w.waited_for_op_id,
    CASE
        WHEN g.timeline = 'cpu' AND h.is_loading THEN 'data_loading'
        -- what is launched into a graph does not run, so that no launch is known of what ends the gap, if anything does
        WHEN g.whose IS NULL THEN CASE WHEN h.burden = 'graph_capture' THEN h.burden ELSE 'unknown' END
        WHEN g.whose = 'host' AND h.is_loading THEN 'data_loading'
        WHEN g.whose = 'host' THEN coalesce(h.burden, CASE WHEN h.is_late_by_it THEN 'sync' END, 'launch_bound')
        WHEN g.end_ns - w.waited_until_ns <= kernel_delay_ns THEN 'dependency'
        WHEN g.delay_ns <= kernel_delay_ns THEN 'kernel_delay'
        WHEN f.op_id IS NOT NULL THEN 'began_before'
        ELSE 'device_delay'
    END AS cause,
    1::BIGINT AS gaps,
    g.end_ns - g.start_ns AS gaps_ns,
    g.end_ns - g.start_ns AS longest_ns
FROM parts AS g
LEFT JOIN tw_held_up('hosted') AS h USING (gap_id)
LEFT JOIN waited AS w USING (gap_id)
-- what a stream runs first may wait for what was there before; of a gap longer than all that was recorded before it, it does
LEFT JOIN tw_first_of_streams AS f ON f.op_id = g.before_op_id AND coalesce(g.start_ns - f.recorded_from_ns < g.end_ns - g.start_ns, TRUE)
UNION ALL
-- launched, and running within kernel_delay_ns
SELECT
    NULL, rank, timeline, device, lane, unnest(list_select(steps, found.queued_number)), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, 'kernel_delay', unnest(found.queued_gaps), unnest(found.queued_ns), unnest(found.queued_longest_ns)
FROM swept
WHERE queued = 'summed';
