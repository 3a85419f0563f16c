-- What kinds of parallelism leave behind in a trace: where the host issued a collective, and what the device computed
-- meanwhile.

-- rows: tw_progress(ops, of_category, calls) | one row per piece of work of a category in the relation named `ops` (rank, category, start_ns, end_ns): rank, start_ns, done_ns (length of the union of all that has started by then), until_ns (where that ends); only ranks that the relation named `calls` has
WITH ordered AS (
    SELECT
        rank,
        start_ns,
        end_ns,
        max(end_ns) OVER (
            PARTITION BY rank ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS covered_until_ns
    FROM query_table(ops)
    WHERE category = of_category AND rank IN (SELECT rank FROM query_table(calls))
)
-- what starts together is one frame: its rows are the same, in whatever order
SELECT
    rank,
    start_ns,
    CAST(sum(tw_added_ns(start_ns, end_ns, covered_until_ns)) OVER so_far AS BIGINT) AS done_ns,
    max(end_ns) OVER so_far AS until_ns
FROM ordered
WINDOW so_far AS (PARTITION BY rank ORDER BY start_ns);

-- rows: tw_collective_exposure(of_calls, release_ns) | one row per collective that the relation named `of_calls` has (call_id, rank) and that is on its rank's device timeline, on the rank's own clock: call_id, exposed_ns (length of it in which no compute ran), blocked_ns (the last stretch of that, up to its end, if compute went on within release_ns of the end: compute stood still for it)
WITH own_ops AS NOT MATERIALIZED (
    FROM tw_own_ops()
),
progress AS MATERIALIZED (
    SELECT * FROM tw_progress('own_ops', 'compute', of_calls)
),
calls AS MATERIALIZED (
    SELECT call_id, rank, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM collectives
    WHERE call_id IN (SELECT call_id FROM query_table(of_calls))
        -- what a host backend does is not on the timeline of a rank with a GPU
        AND (gpu_op_id IS NOT NULL OR rank IN (SELECT rank FROM tw_timelines WHERE timeline = 'cpu'))
),
begun AS (
    SELECT k.*, coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.start_ns), 0) AS done_before_ns
    FROM calls AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.start_ns >= p.start_ns
),
ended AS (
    SELECT
        k.*,
        coalesce(p.done_ns - tw_overhang_ns(p.until_ns, k.end_ns), 0) AS done_by_end_ns,
        p.until_ns AS computed_until_ns
    FROM begun AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.end_ns > p.start_ns
)
SELECT
    k.call_id,
    k.end_ns - k.start_ns - (k.done_by_end_ns - k.done_before_ns) AS exposed_ns,
    CASE WHEN p.start_ns - k.end_ns <= release_ns AND coalesce(k.computed_until_ns < k.end_ns, TRUE)
        THEN k.end_ns - greatest(k.start_ns, coalesce(k.computed_until_ns, k.start_ns)) ELSE 0 END AS blocked_ns
FROM ended AS k ASOF LEFT JOIN progress AS p ON p.rank = k.rank AND k.end_ns <= p.start_ns;

-- table: tw_issued | one row per collective with a host operation: call_id, and rank, pid and tid (-1: no number), start_ns, end_ns (common clock) and kind of that operation
SELECT k.call_id, h.rank, coalesce(h.pid, -1) AS pid, coalesce(h.tid, -1) AS tid, h.start_ns, h.end_ns, h.kind
FROM collectives AS k JOIN host_ops AS h ON h.op_id = k.host_op_id;

-- rows: tw_collective_issue() | one row per collective with a host operation: call_id, pid, tid, asked_ns and asked_until_ns (its range on the host), asked_by ('gradient': issued where autograd accumulates gradients, or FSDP reduces them, 'region': inside a model-parallel region, NULL: neither)
-- ranges of one name that contain each other would hide the outer one: autograd's outer range is the one that counts
WITH marks AS MATERIALIZED (
    SELECT
        rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        start_ns,
        end_ns,
        n.is_gradient
    FROM host_ops JOIN (
        SELECT name, coalesce(autograd = 'gradient', FALSE) OR coalesce(sharding = 'gradient', FALSE) AS is_gradient
        FROM tw_range_names WHERE is_gradient OR model_parallel IS NOT NULL
    ) AS n USING (name)
    WHERE kind NOT IN ('runtime', 'driver', 'os') AND rank IN (SELECT rank FROM tw_issued)
)
SELECT
    i.call_id,
    i.pid,
    i.tid,
    i.start_ns AS asked_ns,
    i.end_ns AS asked_until_ns,
    CASE WHEN i.start_ns < g.end_ns THEN 'gradient' WHEN i.start_ns < m.end_ns THEN 'region' END AS asked_by
FROM tw_issued AS i
ASOF LEFT JOIN (SELECT * FROM marks WHERE is_gradient) AS g
    ON g.rank = i.rank AND g.pid = i.pid AND g.tid = i.tid AND i.start_ns >= g.start_ns
ASOF LEFT JOIN (SELECT * FROM marks WHERE NOT is_gradient) AS m
    ON m.rank = i.rank AND m.pid = i.pid AND m.tid = i.tid AND i.start_ns >= m.start_ns;

-- table: tw_updates | ranges in which the optimizer updates parameters, as host_ops has them (numbers that it lacks are -1): rank, step, pid, tid, start_ns, end_ns, and the same on the rank's own clock. One that runs forward and backward pass too, as the closure that Lightning gives it, begins where the last operator of autograd in it ends
WITH ranges AS (
    SELECT rank, step, coalesce(pid, -1) AS pid, coalesce(tid, -1) AS tid, start_ns, end_ns, start_local_ns, duration_ns
    FROM host_ops
    WHERE kind IN ('annotation', 'nvtx') AND name IN (SELECT name FROM tw_range_names WHERE optimizer IS NOT NULL)
),
backward AS (
    SELECT
        rank, coalesce(pid, -1) AS pid, start_local_ns,
        max(start_local_ns + duration_ns) OVER (PARTITION BY rank, coalesce(pid, -1) ORDER BY start_local_ns ROWS UNBOUNDED PRECEDING) AS until_local_ns
    FROM host_ops
    WHERE kind NOT IN ('runtime', 'driver', 'os') AND name IN (SELECT name FROM tw_range_names WHERE autograd IS NOT NULL)
        AND EXISTS (FROM ranges)
),
closures AS (
    SELECT r.*, CASE WHEN b.start_local_ns >= r.start_local_ns THEN b.until_local_ns - r.start_local_ns ELSE 0 END AS closure_ns
    FROM ranges AS r
    ASOF LEFT JOIN backward AS b ON b.rank = r.rank AND b.pid = r.pid AND b.start_local_ns < r.start_local_ns + r.duration_ns
)
SELECT
    rank, step, pid, tid, start_ns + closure_ns AS start_ns, end_ns,
    start_local_ns + closure_ns AS start_local_ns, start_local_ns + duration_ns AS end_local_ns
FROM closures;

-- rows: tw_issued_within(family) | the collectives that the host issued inside ranges of a family, 'optimizer' (tw_updates), 'forward' (of DDP), 'sharding' or 'backward' (of tw_range_names): call_id
-- ranges of a thread nest: one is open where the latest end of those that have begun lies ahead
WITH ranges AS (
    SELECT rank, pid, tid, start_ns, max(end_ns) OVER (PARTITION BY rank, pid, tid ORDER BY start_ns ROWS UNBOUNDED PRECEDING) AS open_until_ns
    FROM (
        SELECT rank, pid, tid, start_ns, end_ns FROM tw_updates WHERE family = 'optimizer'
        UNION ALL
        SELECT rank, coalesce(pid, -1), coalesce(tid, -1), start_ns, end_ns
        FROM host_ops
        WHERE family IN ('forward', 'sharding', 'backward') AND kind NOT IN ('runtime', 'driver', 'os')
            AND name IN (
                SELECT name FROM tw_range_names
                WHERE CASE family WHEN 'forward' THEN name = 'DistributedDataParallel.forward' WHEN 'sharding' THEN sharding IS NOT NULL ELSE autograd = 'backward' END
            )
    )
)
SELECT i.call_id
FROM tw_issued AS i
ASOF JOIN ranges AS r ON r.rank = i.rank AND r.pid = i.pid AND r.tid = i.tid AND i.start_ns >= r.start_ns
WHERE i.start_ns < r.open_until_ns;
