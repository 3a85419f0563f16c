-- analysis: data_loading | time that the host spent getting data, and the idle time of the GPU that it caused
-- answers: How long did the training loop wait for data, and was the GPU idle at that time?
-- topic: time
-- grain: one row per rank and step; step is NULL for the whole span of the rank
-- within: rank
-- param: window = 'host'
-- param: min_gap_ns
-- param: kernel_delay_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step number; NULL: the rank's whole span
-- column: window_ns BIGINT | length of the window
-- column: loading_ns BIGINT | time in the window in which a range of data loading was open; NULL if the trace has none at all
-- column: loads BIGINT | such ranges that began in the window, those inside another not counted
-- column: longest_ns BIGINT | longest of those, within the window
-- column: loading_op VARCHAR | name of the range that took most of it
-- column: loading_share DOUBLE | loading_ns / window_ns, 0 to 1
-- column: gpu_idle_ns BIGINT | device time lost in the window: gaps with cause 'data_loading'; NULL like loading_ns
-- column: gpu_idle_share DOUBLE | gpu_idle_ns / window_ns; more than 1 is possible with several devices
-- column: note VARCHAR | why values are NULL; NULL if they are not
-- order: rank, step NULLS FIRST
-- caveat: data loading is recognized by enumerate(DataLoader)#... of PyTorch, a loader's own functions in a recorded Python stack, or a range that is called data_loading, next_batch or the like; other loaders need such a range.
-- caveat: a range that only takes a ready batch from a queue is short: that is good; workers in other processes are not recorded.
-- caveat: loading_ns counts all threads of the rank; gpu_idle_ns only what delayed the launching thread.
WITH windows AS MATERIALIZED (
    SELECT rank, step, start_ns, end_ns FROM tw_windows({{ param('window') }})
),
loading AS MATERIALIZED (
    SELECT
        rank,
        name,
        start_local_ns AS start_ns,
        start_local_ns + duration_ns AS end_ns,
        max(start_local_ns + duration_ns) OVER (
            PARTITION BY rank ORDER BY start_local_ns, duration_ns DESC, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM host_ops
    WHERE kind IN ('annotation', 'op', 'nvtx', 'python') AND name IN (SELECT name FROM tw_range_names WHERE gets_data = 'yes')
),
known AS (
    SELECT DISTINCT rank FROM loading
),
-- what each range adds to those before it, and how much of that lies in a window
shares AS (
    SELECT
        w.rank,
        w.step,
        w.start_ns AS window_start_ns,
        l.name,
        l.start_ns >= w.start_ns AND tw_added_ns(l.start_ns, l.end_ns, l.covered_until_ns) > 0
            AND coalesce(l.start_ns >= l.covered_until_ns, TRUE) AS begins,
        tw_shared_ns(greatest(l.start_ns, coalesce(l.covered_until_ns, l.start_ns)), l.end_ns, w.start_ns, w.end_ns) AS ns
    FROM windows AS w
    JOIN loading AS l ON l.rank = w.rank AND l.start_ns < w.end_ns AND l.end_ns > w.start_ns
),
loaded AS (
    SELECT
        rank,
        step,
        window_start_ns,
        CAST(sum(ns) AS BIGINT) AS loading_ns,
        count(CASE WHEN begins THEN 1 END) AS loads,
        max(ns) AS longest_ns
    FROM shares
    GROUP BY rank, step, window_start_ns
),
named AS (
    SELECT rank, step, window_start_ns, name
    FROM shares
    GROUP BY rank, step, window_start_ns, name
    QUALIFY row_number() OVER (PARTITION BY rank, step, window_start_ns ORDER BY sum(ns) DESC, name) = 1
),
idle AS (
    SELECT rank, step, CAST(sum(end_ns - start_ns) AS BIGINT) AS gpu_idle_ns
    FROM tw_gaps({{ param('window') }}, 'device', {{ param('min_gap_ns') }}, {{ param('kernel_delay_ns') }}, 'none')
    WHERE cause = 'data_loading'
    GROUP BY rank, step
)
SELECT
    w.rank,
    w.step,
    w.end_ns - w.start_ns AS window_ns,
    CASE WHEN k.rank IS NOT NULL THEN coalesce(l.loading_ns, 0) END AS loading_ns,
    CASE WHEN k.rank IS NOT NULL THEN coalesce(l.loads, 0) END AS loads,
    l.longest_ns,
    n.name AS loading_op,
    tw_ratio(CASE WHEN k.rank IS NOT NULL THEN coalesce(l.loading_ns, 0) END, w.end_ns - w.start_ns) AS loading_share,
    CASE WHEN k.rank IS NOT NULL THEN coalesce(i.gpu_idle_ns, 0) END AS gpu_idle_ns,
    tw_ratio(CASE WHEN k.rank IS NOT NULL THEN coalesce(i.gpu_idle_ns, 0) END, w.end_ns - w.start_ns) AS gpu_idle_share,
    CASE WHEN k.rank IS NULL THEN 'no range in which the training loop gets data is in the trace' END AS note
FROM windows AS w
LEFT JOIN known AS k USING (rank)
LEFT JOIN loaded AS l
    ON l.rank = w.rank AND l.step IS NOT DISTINCT FROM w.step AND l.window_start_ns = w.start_ns
LEFT JOIN named AS n
    ON n.rank = w.rank AND n.step IS NOT DISTINCT FROM w.step AND n.window_start_ns = w.start_ns
LEFT JOIN idle AS i ON i.rank = w.rank AND i.step IS NOT DISTINCT FROM w.step
ORDER BY w.rank, w.step NULLS FIRST
