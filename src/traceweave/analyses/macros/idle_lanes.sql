-- Where devices and streams run nothing, whatever the reason; all times on each rank's own clock.

-- rows: tw_lane_ops(per) | what runs on each device (per = 'device') or stream ('stream'): rank, timeline, device, lane (-1: no number, or all streams), op_id, start_ns, end_ns, launch_start_ns, launch_end_ns (of the call that launched it; of what was launched before the recording began, the latest moment by which it was)
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
LEFT JOIN (SELECT * FROM collectives WHERE receive_op_id IS NOT NULL) AS k ON k.gpu_op_id = o.op_id;

-- rows: tw_idle_lanes(window_kind, per, min_gap_ns, kernel_delay_ns, queued) | every stretch of nothing, cut at the edges of the windows and where its launch returned (sweeps): it may have no beginning (before the first op) or no end (after the last one, where the thread to watch is the one that launched that); one row per device or stream: rank, timeline, device, lane, steps (of the windows, which `found` numbers), found; parameters as in tw_gaps
WITH windows AS MATERIALIZED (
    SELECT
        rank,
        step,
        start_ns,
        least(end_ns, coalesce(lead(start_ns) OVER by_start, end_ns)) AS end_ns,
        row_number() OVER by_start AS number
    FROM tw_windows(window_kind)
    WINDOW by_start AS (PARTITION BY rank ORDER BY start_ns, end_ns, step)
)
SELECT
    o.rank, o.timeline, o.device, o.lane, w.steps,
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
    FROM tw_lane_ops(per)
    GROUP BY rank, timeline, device, lane
) AS o
JOIN (
    SELECT
        rank, list(step ORDER BY number) AS steps, list(start_ns ORDER BY number) AS starts, list(end_ns ORDER BY number) AS ends
    FROM windows
    GROUP BY rank
) AS w USING (rank);
