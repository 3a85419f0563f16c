-- What the records of a file cannot support -> new_doubts. Input: new_gpu_ops, new_host_ops, host_names, placed, launched,
-- overruns, early_ops, classified, new_collective_calls, new_steps.

CREATE OR REPLACE TEMP TABLE new_doubts AS
WITH ops AS MATERIALIZED (
    SELECT g.*, l.step, l.launch_start_local_ns, c.category
    FROM (
        SELECT rank, op_id, kind, name, correlation, launch_op_id, start_local_ns, duration_ns, CASE WHEN kind = 'memcpy' THEN bytes END AS copied_bytes
        FROM new_gpu_ops
        -- pages of managed memory the driver moves by itself: no call does, and they are no work of the program
        WHERE rank IS NOT NULL AND NOT coalesce(starts_with(copy_kind, 'UVM'), FALSE)
    ) AS g
    LEFT JOIN (SELECT op_id, step, launch_start_local_ns FROM launched) AS l USING (op_id)
    LEFT JOIN classified AS c USING (kind, name)
),
per_rank AS MATERIALIZED (
    SELECT
        rank,
        count(*) AS ops,
        count(*) FILTER (kind NOT IN ('memcpy', 'memset')) AS kernels,
        max(duration_ns) AS longest_ns,
        arg_max(op_id, duration_ns) AS longest,
        CAST(sum(copied_bytes) AS BIGINT) AS copied_bytes,
        CAST(sum(duration_ns) AS BIGINT) AS busy_ns,
        min(launch_start_local_ns) AS first_launch_ns,
        max(launch_start_local_ns) AS last_launch_ns,
        min(start_local_ns) FILTER (launch_op_id IS NOT NULL) AS first_launched_ns
    FROM ops GROUP BY rank
),

-- Launches of which no device record came. One that the capture of a graph takes in runs nothing. What is launched in no step,
-- and before or after all that has a record, is beyond an end of the recording (the device's begins a little later than the
-- host's): no number misses it. A step that lost one in a hundred of its launches, and more than two, is unknown: what they ran
-- would be idle time. Fewer than one in fifty are not worth a word.
launches AS MATERIALIZED (
    SELECT h.rank, h.op_id, h.correlation, h.start_local_ns, p.step
    FROM (SELECT rank, op_id, kind, name, correlation, start_local_ns FROM new_host_ops) AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND {{ names('launching', 'name') }} IN ('kernel', 'graph')) AS n USING (kind, name)
    JOIN placed AS p USING (op_id)
    WHERE h.correlation IS NOT NULL
),
lost AS MATERIALIZED (
    SELECT l.*
    FROM launches AS l
    ANTI JOIN ops AS g ON g.launch_op_id = l.op_id
    ANTI JOIN ops AS c ON c.rank = l.rank AND c.correlation = l.correlation
    ANTI JOIN early_ops AS e ON e.launch_op_id = l.op_id
),
marked AS (
    SELECT DISTINCT rank FROM new_steps WHERE source <> 'recording'
),
captures AS (
    SELECT h.rank, h.start_local_ns, contains(name, 'Begin') AS is_open
    FROM (SELECT rank, kind, name, start_local_ns FROM new_host_ops) AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND regexp_matches(name, 'Stream(Begin|End)Capture')) AS n USING (kind, name)
),
missing AS (
    SELECT l.rank, l.step, count(*) AS count
    FROM lost AS l
    JOIN per_rank AS r USING (rank)
    ASOF LEFT JOIN captures AS c ON c.rank = l.rank AND c.start_local_ns <= l.start_local_ns
    WHERE c.is_open IS DISTINCT FROM TRUE AND (
        l.rank IN (FROM marked) AND l.step IS NOT NULL OR l.start_local_ns BETWEEN r.first_launch_ns AND r.last_launch_ns
    )
    GROUP BY l.rank, l.step
),
lost_records AS (
    SELECT m.rank, m.step, 'lost records' AS kind, m.count, t.total, m.count > 2 AND 100 * m.count > t.total AS is_unknown
    FROM missing AS m
    JOIN (SELECT rank, step, count(*) AS total FROM launches GROUP BY ALL) AS t ON t.rank = m.rank AND t.step IS NOT DISTINCT FROM m.step
    WHERE is_unknown OR 50 * m.count > t.total
),

-- What was cut to the start of the next op is about right: such steps count.
overrunning AS (
    SELECT o.rank, o.step, 'overruns' AS kind, count(*) AS count, any_value(r.ops) AS total, FALSE AS is_unknown
    FROM overruns JOIN ops AS o USING (op_id) JOIN per_rank AS r ON r.rank = o.rank
    GROUP BY o.rank, o.step
),
early AS (SELECT rank, step, count(*) AS count FROM early_ops GROUP BY ALL),
impossible_times AS (
    SELECT
        e.rank, e.step, 'impossible times' AS kind, e.count, e.count + coalesce(k.count, 0) AS total,
        e.step IS NOT NULL AND 100 * e.count > total AS is_unknown
    FROM early AS e
    LEFT JOIN (SELECT rank, step, count(*) AS count FROM ops GROUP BY ALL) AS k ON k.rank = e.rank AND k.step IS NOT DISTINCT FROM e.step
),

-- What runs before anything that was launched in the recording was launched before it. Some launches are of kinds that are not
-- recorded (an eighth, in a run of torchrec); where a quarter is missing, little is known of why the GPU idled.
no_launches AS (
    SELECT
        o.rank, NULL AS step, 'no launches' AS kind, count(*) FILTER (o.launch_op_id IS NULL) AS count, count(*) AS total,
        FALSE AS is_unknown
    FROM ops AS o JOIN per_rank AS r ON r.rank = o.rank AND o.start_local_ns >= r.first_launched_ns
    GROUP BY o.rank
    HAVING 4 * count(*) FILTER (o.launch_op_id IS NULL) > count(*)
),

-- One of many ops that is most of the GPU's time: of those recorded the longest of fifty is 44 % of it. A program may be one
-- kernel, and copies of its data are no others. Communication can wait that long; what computes that long in one step, and in no other, makes that step no step of the rank. A copy of most of the bytes that are copied is as long as these take.
one_op AS (
    SELECT
        r.rank, o.step, 'one op' AS kind, r.longest_ns AS count, r.busy_ns AS total,
        o.step IS NOT NULL AND r.rank IN (FROM marked) AND (o.category IS DISTINCT FROM 'communication') AS is_unknown
    FROM per_rank AS r JOIN ops AS o ON o.op_id = r.longest
    WHERE r.kernels >= 50 AND 2 * r.longest_ns > r.busy_ns AND coalesce(2 * o.copied_bytes <= r.copied_bytes, TRUE)
),

-- NCCL's kernels launched in the recording; of those before it no file tells more, and of other libraries' kernels (torch's
-- symmetric memory: multimem_all_reduce_kernel) none ever does.
no_metadata AS (
    SELECT
        rank, NULL AS step, 'no metadata' AS kind, count(*) FILTER (evidence = 'name') AS count, count(*) AS total, FALSE AS is_unknown
    FROM new_collective_calls AS c
    SEMI JOIN launched AS l ON l.op_id = c.gpu_op_id
    SEMI JOIN new_gpu_ops AS g ON g.op_id = c.gpu_op_id AND starts_with(g.name, 'nccl')
    GROUP BY rank
    HAVING bool_or(evidence = 'name') AND bool_or(evidence IN ('metadata', 'capture'))
)
FROM lost_records
UNION ALL BY NAME FROM overrunning
UNION ALL BY NAME FROM impossible_times
UNION ALL BY NAME FROM no_launches
UNION ALL BY NAME FROM one_op
UNION ALL BY NAME FROM no_metadata;
