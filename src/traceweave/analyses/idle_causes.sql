-- analysis: idle_causes | idle time of each rank and step by cause
-- answers: How much time does each cause of idling take, and what does the host do at that time?
-- topic: time
-- grain: one row per rank, step and cause that occurs; step is NULL for the whole span of the rank
-- within: rank
-- reads: clock_spans, collective_instances, collectives, device_ops, gpu_ops, host_ops, other_events, ranks, steps
-- param: window
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: cause VARCHAR | cause of the gaps, as gaps has it; 'short' for gaps shorter than min_gap_ns
-- column: idle_ns BIGINT | time in which nothing ran for this cause; over the causes it adds up to idle_ns of breakdown
-- column: gaps BIGINT | gaps, or parts of gaps, with this cause; NULL for 'short'
-- column: longest_ns BIGINT | longest of them; NULL for 'short'
-- column: window_ns BIGINT | length of the window
-- column: window_share DOUBLE | idle_ns / window_ns, 0 to 1
-- column: host_op VARCHAR | the host operation that covers most of the time of these gaps; NULL if nothing covers any of them, and for 'short'
-- column: host_op_ns BIGINT | time of the gaps that host_op covers
-- column: timeline VARCHAR | 'gpu', or 'cpu' for a rank without GPU ops
-- order: rank, step NULLS FIRST, idle_ns DESC, cause
-- caveat: a rank with several devices idles when all of them do: the gaps of its devices are scaled down to that time.
WITH windows AS (
    SELECT rank, step, window_ns, idle_ns, timeline FROM analysis_breakdown(p_window := $window)
),
-- those of queued ops summed up: there are too many of them from 1 us on
found AS MATERIALIZED (
    SELECT
        g.gap_id, g.rank, g.step, g.cause, g.pid, g.tid, g.start_ns, g.end_ns, g.gaps, g.gaps_ns, g.longest_ns
    FROM tw_gaps($window, 'device', $min_gap_ns, $kernel_delay_ns, 'summed') AS g
),
-- what was launched needed nothing of the host any more
hosted AS MATERIALIZED (
    SELECT gap_id, rank, pid, tid, start_ns, end_ns
    FROM found
    WHERE cause NOT IN (SELECT cause FROM tw_gap_causes() WHERE whose = 'device')
),
hosts AS (
    SELECT rank, step, cause, host_op, CAST(sum(host_op_ns) AS BIGINT) AS host_op_ns
    FROM found JOIN tw_gap_hosts('hosted') USING (gap_id)
    GROUP BY rank, step, cause, host_op
    QUALIFY row_number() OVER (PARTITION BY rank, step, cause ORDER BY sum(host_op_ns) DESC, host_op) = 1
),
summed AS (
    SELECT
        rank,
        step,
        cause,
        sum(gaps_ns) AS gaps_ns,
        sum(sum(gaps_ns)) OVER (PARTITION BY rank, step) AS all_ns,
        CAST(sum(gaps) AS BIGINT) AS gaps,
        max(longest_ns) AS longest_ns
    FROM found
    GROUP BY rank, step, cause
),
scaled AS (
    SELECT
        w.rank,
        w.step,
        s.cause,
        CAST(s.gaps_ns * least(w.idle_ns, s.all_ns) // s.all_ns AS BIGINT) AS idle_ns,
        s.gaps,
        s.longest_ns,
        w.window_ns,
        w.timeline
    FROM windows AS w JOIN summed AS s ON s.rank = w.rank AND s.step IS NOT DISTINCT FROM w.step
),
rests AS (
    SELECT
        w.rank,
        w.step,
        CAST(w.idle_ns - coalesce(sum(s.idle_ns), 0) AS BIGINT) AS idle_ns,
        w.window_ns,
        w.timeline
    FROM windows AS w
    LEFT JOIN scaled AS s ON s.rank = w.rank AND s.step IS NOT DISTINCT FROM w.step
    GROUP BY w.rank, w.step, w.window_ns, w.idle_ns, w.timeline
    HAVING w.idle_ns > coalesce(sum(s.idle_ns), 0)
),
caused AS (
    SELECT rank, step, cause, idle_ns, gaps, longest_ns, window_ns, timeline FROM scaled
    UNION ALL
    SELECT rank, step, 'short', idle_ns, NULL, NULL, window_ns, timeline FROM rests
)
SELECT
    c.rank,
    c.step,
    c.cause,
    c.idle_ns,
    c.gaps,
    c.longest_ns,
    c.window_ns,
    tw_ratio(c.idle_ns, c.window_ns) AS window_share,
    h.host_op,
    h.host_op_ns,
    c.timeline
FROM caused AS c
LEFT JOIN hosts AS h ON h.rank = c.rank AND h.step IS NOT DISTINCT FROM c.step AND h.cause = c.cause
ORDER BY c.rank, c.step NULLS FIRST, c.idle_ns DESC, c.cause
