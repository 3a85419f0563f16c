-- What the records of a file cannot support -> new_doubts. Input: new_gpu_ops, new_host_ops, host_names, placed, launched,
-- overruns.

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
