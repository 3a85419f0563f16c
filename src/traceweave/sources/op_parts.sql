-- Without a GPU operators are the compute of a rank: base.op_parts, what of them is cut. One that waits for a collective or is one,
-- inside others, is none, nor are they meanwhile; nor is what a thread that issues none (gloo's own) does inside a collective: that is its
-- transfer. A range in which compiled code runs is one: what torch.compile makes for a CPU calls no operator. Input: new_host_ops,
-- new_collective_calls, host_names, placed (finish.sql); no file has GPU ops.
INSERT INTO base.op_parts BY NAME
WITH RECURSIVE waits AS (
    SELECT op_id, start_local_ns AS from_ns, start_local_ns + duration_ns AS until_ns
    FROM new_host_ops
    WHERE kind = 'op' AND name IN (SELECT name FROM host_names WHERE kind = 'op' AND part IN ('wait', 'operator'))
),
-- an operator that asks for one and calls no other until that is over, neither ends before (the all_to_all of a layer); so does one
-- around a range that does (FSDP's post_backward)
asking AS (
    SELECT p.parent_id AS op_id, h.start_local_ns + h.duration_ns AS from_ns, k.start_local_ns + k.duration_ns AS until_ns
    FROM new_collective_calls AS k
    JOIN new_host_ops AS h ON h.op_id = k.host_op_id AND h.kind = 'op'
    JOIN placed AS p ON p.op_id = h.op_id
    JOIN new_host_ops AS o ON o.op_id = p.parent_id AND o.kind IN ('op', 'annotation')
    WHERE from_ns < until_ns AND until_ns <= o.start_local_ns + o.duration_ns
),
busy AS (
    SELECT a.op_id, a.from_ns
    FROM asking AS a JOIN placed AS p ON p.parent_id = a.op_id JOIN new_host_ops AS h ON h.op_id = p.op_id
    WHERE h.kind IN ('op', 'annotation') AND h.start_local_ns >= a.from_ns AND h.start_local_ns < a.until_ns
),
around AS (
    FROM waits
    UNION ALL
    FROM asking ANTI JOIN busy USING (op_id, from_ns)
    UNION ALL
    SELECT p.parent_id, a.from_ns, a.until_ns FROM around AS a JOIN placed AS p USING (op_id) WHERE p.parent_id IS NOT NULL
),
ranges AS (
    SELECT op_id, source_of(op_id) AS source_id, tid
    FROM new_host_ops
    WHERE kind = 'annotation' AND name IN (SELECT name FROM host_names WHERE kind = 'annotation' AND part = 'host')
),
issuing AS (
    SELECT DISTINCT source_of(op_id) AS source_id, tid
    FROM new_host_ops
    WHERE kind = 'op' AND name IN (SELECT name FROM host_names WHERE kind = 'op' AND part = 'issue')
),
inside AS (
    SELECT op_id FROM ranges ANTI JOIN issuing USING (source_id, tid)
    UNION ALL
    SELECT p.op_id FROM inside AS i JOIN placed AS p ON p.parent_id = i.op_id
),
compiled AS (
    SELECT op_id, start_local_ns, duration_ns
    FROM new_host_ops
    WHERE kind = 'annotation' AND name IN (SELECT name FROM host_names WHERE kind = 'annotation' AND {{ names('compiling', 'name') }} = 'runs')
),
cut AS (
    SELECT h.op_id, h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns, a.from_ns, a.until_ns
    FROM around AS a JOIN new_host_ops AS h USING (op_id)
    WHERE h.kind = 'op' OR h.op_id IN (SELECT op_id FROM compiled)
),
parts AS (
    SELECT
        op_id,
        coalesce(max(until_ns) OVER (PARTITION BY op_id ORDER BY from_ns, until_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), start_ns) AS start_ns,
        from_ns AS end_ns,
        FALSE AS is_last
    FROM cut
    UNION ALL
    SELECT op_id, max(until_ns), any_value(end_ns), TRUE FROM cut GROUP BY op_id
)
SELECT op_id, source_of(op_id) AS source_id, start_ns AS start_local_ns, greatest(end_ns - start_ns, 0) AS duration_ns
FROM parts
WHERE end_ns > start_ns OR is_last
UNION ALL
SELECT op_id, source_of(op_id) AS source_id, start_local_ns, duration_ns FROM compiled WHERE op_id NOT IN (SELECT op_id FROM around)
UNION ALL
SELECT h.op_id, source_of(h.op_id) AS source_id, h.start_local_ns, 0 AS duration_ns
FROM inside JOIN new_host_ops AS h USING (op_id)
WHERE h.kind = 'op' AND h.op_id NOT IN (SELECT op_id FROM around);
