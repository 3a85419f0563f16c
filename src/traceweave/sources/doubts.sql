-- What the records of a file cannot support -> new_doubts. Input: new_gpu_ops, new_host_ops, host_names, placed, launched,
-- overruns, early_ops, classified, new_collective_calls.

-- Launches of which no device record came. One that the capture of a graph takes in runs nothing. What is launched in no step,
-- and after all that has a record, is beyond the end of the recording: no number misses it. A step that lost one in a hundred
-- of its launches, and more than two, is unknown: what they ran would be idle time. Fewer than one in fifty are not worth a word.
CREATE OR REPLACE TEMP TABLE new_doubts AS
WITH launches AS MATERIALIZED (
    SELECT h.rank, h.op_id, h.correlation, h.start_local_ns, p.step
    FROM (SELECT rank, op_id, kind, name, correlation, start_local_ns FROM new_host_ops) AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND vocabulary('launching', name) IN ('kernel', 'graph')) AS n USING (kind, name)
    JOIN placed AS p USING (op_id)
    WHERE h.correlation IS NOT NULL
),
lost AS MATERIALIZED (
    SELECT l.*
    FROM launches AS l
    ANTI JOIN (SELECT launch_op_id FROM new_gpu_ops) AS g ON g.launch_op_id = l.op_id
    ANTI JOIN (SELECT rank, correlation FROM new_gpu_ops) AS c ON c.rank = l.rank AND c.correlation = l.correlation
    ANTI JOIN early_ops AS e ON e.launch_op_id = l.op_id
),
captures AS (
    SELECT h.rank, h.start_local_ns, contains(name, 'Begin') AS is_open
    FROM (SELECT rank, kind, name, start_local_ns FROM new_host_ops) AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND regexp_matches(name, 'Stream(Begin|End)Capture')) AS n USING (kind, name)
),
recorded AS (
    SELECT g.rank, max(l.launch_start_local_ns) AS last_ns
    FROM (SELECT rank, op_id FROM new_gpu_ops) AS g JOIN launched AS l USING (op_id)
    GROUP BY g.rank
),
missing AS (
    SELECT l.rank, l.step, count(*) AS count
    FROM lost AS l
    JOIN recorded AS r USING (rank)
    ASOF LEFT JOIN captures AS c ON c.rank = l.rank AND c.start_local_ns <= l.start_local_ns
    WHERE c.is_open IS DISTINCT FROM TRUE AND (l.step IS NOT NULL OR l.start_local_ns < r.last_ns)
    GROUP BY l.rank, l.step
)
SELECT
    m.rank, m.step, 'lost records' AS kind, m.count, t.total,
    m.count > 2 AND 100 * m.count > t.total AS is_unknown
FROM missing AS m
JOIN (SELECT rank, step, count(*) AS total FROM launches GROUP BY ALL) AS t ON t.rank = m.rank AND t.step IS NOT DISTINCT FROM m.step
WHERE is_unknown OR 50 * m.count > t.total;

-- What was cut to the start of the next op is about right: such steps count.
INSERT INTO new_doubts BY NAME
SELECT o.rank, l.step, 'overruns' AS kind, count(*) AS count, any_value(t.total) AS total, FALSE AS is_unknown
FROM overruns AS o
LEFT JOIN launched AS l USING (op_id)
JOIN (SELECT rank, count(*) AS total FROM new_gpu_ops GROUP BY rank) AS t ON t.rank = o.rank
GROUP BY o.rank, l.step;

INSERT INTO new_doubts BY NAME
WITH early AS (SELECT rank, step, count(*) AS count FROM early_ops GROUP BY ALL),
kept AS (SELECT rank, step, count(*) AS count FROM launched JOIN (SELECT rank, op_id FROM new_gpu_ops) USING (op_id) GROUP BY ALL)
SELECT
    e.rank, e.step, 'impossible times' AS kind, e.count, e.count + coalesce(k.count, 0) AS total,
    e.step IS NOT NULL AND 100 * e.count > total AS is_unknown
FROM early AS e LEFT JOIN kept AS k ON k.rank = e.rank AND k.step IS NOT DISTINCT FROM e.step;

-- What runs before anything that was launched in the recording was launched before it. Some launches are of kinds that are not
-- recorded (an eighth, in a run of torchrec); where a quarter is missing, little is known of why the GPU idled.
INSERT INTO new_doubts BY NAME
WITH ops AS (
    SELECT rank, start_local_ns, launch_op_id IS NOT NULL AS has_launch FROM new_gpu_ops WHERE rank IS NOT NULL
),
began AS (SELECT rank, min(start_local_ns) FILTER (has_launch) AS from_ns FROM ops GROUP BY rank)
SELECT
    o.rank, NULL AS step, 'no launches' AS kind, count(*) FILTER (NOT has_launch) AS count, count(*) AS total, FALSE AS is_unknown
FROM ops AS o JOIN began AS b ON b.rank = o.rank AND o.start_local_ns >= b.from_ns
GROUP BY o.rank
HAVING 4 * count(*) FILTER (NOT has_launch) > count(*);

-- One of many ops that is most of the GPU's time: of those recorded the longest of fifty is 44 % of it. Communication can wait
-- that long; what computes that long in one step, and in no other, makes that step no step of the rank.
INSERT INTO new_doubts BY NAME
WITH longest AS (
    SELECT rank, arg_max(op_id, duration_ns) AS op_id, max(duration_ns) AS count, CAST(sum(duration_ns) AS BIGINT) AS total
    FROM (SELECT rank, op_id, duration_ns FROM new_gpu_ops WHERE rank IS NOT NULL)
    GROUP BY rank
    HAVING count(*) >= 50 AND 2 * max(duration_ns) > sum(duration_ns)
)
SELECT
    o.rank, l.step, 'one op' AS kind, o.count, o.total,
    l.step IS NOT NULL AND c.category IS DISTINCT FROM 'communication' AS is_unknown
FROM longest AS o
JOIN (SELECT op_id, kind, name FROM new_gpu_ops) AS g USING (op_id)
LEFT JOIN launched AS l USING (op_id)
LEFT JOIN classified AS c USING (kind, name);

-- Kernels launched in the recording; of those before it no file tells more.
INSERT INTO new_doubts BY NAME
SELECT rank, NULL AS step, 'no metadata' AS kind, count(*) FILTER (evidence = 'name') AS count, count(*) AS total, FALSE AS is_unknown
FROM new_collective_calls AS c SEMI JOIN launched AS l ON l.op_id = c.gpu_op_id
GROUP BY rank
HAVING bool_or(evidence = 'name') AND bool_or(evidence = 'metadata');
