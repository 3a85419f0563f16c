-- The windows of time that the device timeline is measured in, each on its rank's own clock, and what ran in them.

-- macro: tw_is_unknown(rank, step) | whether the recording's verdict leaves this step of this rank out of all numbers, or all of the rank
    rank IN (SELECT r.rank FROM recording AS r WHERE r.is_unknown AND r.steps = [])
        OR coalesce((rank, step) IN (SELECT (r.rank, s.step) FROM recording AS r, unnest(r.steps) AS s(step) WHERE r.is_unknown), FALSE);

-- macro: tw_counts(whose, which) | whether what a rank issued in this step is of the mean step: the step is one of `steps`, or none is marked
    (whose, which) IN (SELECT (s.rank, s.step) FROM steps AS s) OR (SELECT count(*) = 0 FROM steps);

-- rows: tw_windows(kind) | one row per rank and step ('device', 'host') or per rank ('span', and ranks without steps): rank, timeline, step, start_ns and end_ns on the rank's own clock, note
WITH stepped AS (
    SELECT
        spans.rank,
        spans.timeline,
        steps.step,
        -- a rank without a GPU has no device windows: its step ranges on the host are the best there is
        CASE WHEN kind = 'device' AND timeline = 'gpu' THEN steps.device_start_local_ns ELSE steps.start_local_ns END AS start_ns,
        CASE WHEN kind = 'device' AND timeline = 'gpu' THEN steps.device_end_local_ns
            ELSE steps.start_local_ns + steps.duration_ns END AS end_ns,
        CASE WHEN kind = 'device' AND timeline = 'cpu' THEN 'host window: no GPU ops' END AS note
    FROM tw_timelines AS spans JOIN steps USING (rank)
    WHERE kind <> 'span'
),
known AS (
    SELECT * FROM stepped WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL
)
SELECT rank, timeline, step, start_ns, end_ns, note FROM known
UNION ALL
SELECT
    rank,
    timeline,
    NULL AS step,
    start_ns,
    end_ns,
    CASE WHEN kind <> 'span' THEN 'no steps recorded: window is the span of the rank' END AS note
FROM tw_timelines
WHERE rank NOT IN (SELECT rank FROM known);

-- rows: tw_cut(pieces, kind) | pieces of time cut at the windows of tw_windows; pieces: name of a relation with rank, from_ns and until_ns; its columns, step, at_ns (where the part begins) and time_ns (its length)
WITH windows AS MATERIALIZED (
    SELECT rank, step, start_ns, end_ns, row_number() OVER (PARTITION BY rank ORDER BY start_ns) AS number FROM tw_windows(kind)
),
placed AS (
    SELECT p.*, unnest(range(coalesce(a.number, 1), coalesce(z.number, 0) + 1)) AS number
    FROM query_table(pieces) AS p
    ASOF LEFT JOIN windows AS a ON a.rank = p.rank AND p.from_ns >= a.start_ns
    ASOF LEFT JOIN windows AS z ON z.rank = p.rank AND p.until_ns > z.start_ns
)
SELECT
    p.* EXCLUDE (number), w.step,
    greatest(p.from_ns, w.start_ns) AS at_ns,
    tw_shared_ns(p.from_ns, p.until_ns, w.start_ns, w.end_ns) AS time_ns
FROM placed AS p JOIN windows AS w USING (rank, number);

-- rows: tw_window_times(kind) | how long each kind of work ran in each window: the columns of tw_windows, window_ns, and the lengths of unions that tw_busy_until has: compute_ns, comm_ns, memory_ns, busy_ns, compute_memory_ns, comm_memory_ns, any_ns, compute_transfer_ns, compute_parts_ns
WITH windows AS MATERIALIZED (
    SELECT rank, timeline, step, start_ns, end_ns, note FROM tw_windows(kind)
),
-- what a host backend does is not on the timeline of a rank with a GPU
split AS MATERIALIZED (
    SELECT rank, start_local_ns, duration_ns, wait_ns, is_whole
    FROM tw_split_calls()
    WHERE gpu_op_id IS NOT NULL OR rank IN (SELECT rank FROM windows WHERE timeline = 'cpu')
),
edges AS (
    SELECT rank, start_ns AS at_ns FROM windows
    UNION
    SELECT rank, end_ns AS at_ns FROM windows
),
ops AS NOT MATERIALIZED (
    SELECT rank, category, start_ns, end_ns FROM tw_own_ops()
    UNION ALL
    SELECT rank, 'communication', start_local_ns, start_local_ns + duration_ns FROM collectives WHERE receive_op_id IS NOT NULL
    UNION ALL
    SELECT rank, 'waiting', start_local_ns, start_local_ns + wait_ns FROM split
    UNION ALL
    SELECT rank, 'transfer', start_local_ns + wait_ns, start_local_ns + duration_ns FROM split WHERE is_whole
),
totals AS MATERIALIZED (
    SELECT * FROM tw_busy_until('ops', 'edges')
),
-- one at a time: of both joins at once DuckDB may take the pairs of a rank first
begun AS MATERIALIZED (
    SELECT w.*, a AS before FROM windows AS w JOIN totals AS a ON a.rank = w.rank AND a.at_ns = w.start_ns
)
SELECT
    w.* EXCLUDE (before),
    w.end_ns - w.start_ns AS window_ns,
    z.compute_ns - before.compute_ns AS compute_ns,
    z.comm_ns - before.comm_ns AS comm_ns,
    z.memory_ns - before.memory_ns AS memory_ns,
    z.busy_ns - before.busy_ns AS busy_ns,
    z.compute_memory_ns - before.compute_memory_ns AS compute_memory_ns,
    z.comm_memory_ns - before.comm_memory_ns AS comm_memory_ns,
    z.any_ns - before.any_ns AS any_ns,
    z.compute_transfer_ns - before.compute_transfer_ns AS compute_transfer_ns,
    z.compute_parts_ns - before.compute_parts_ns AS compute_parts_ns
FROM begun AS w JOIN totals AS z ON z.rank = w.rank AND z.at_ns = w.end_ns;
