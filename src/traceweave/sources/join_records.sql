-- The calls of traces and the records that the job's flight recorder has of them -> joined(call_id, record, group, seq).
-- The recorder notes an operation while the call that issues it (c10d::...) runs on the host: a record whose time lies in exactly one
-- such call, which holds no other record and issued one operation of the same kind, is of that operation.
CREATE OR REPLACE TEMP TABLE joined AS
WITH issuing AS (
    SELECT rank, op_id, tid, start_local_ns, start_local_ns + duration_ns AS end_local_ns
    FROM base.host_ops
    WHERE starts_with(name, 'c10d::') AND rank IN (SELECT rank FROM base.flight_calls)
),
noted AS (
    SELECT
        i.op_id, i.start_local_ns AS issued_ns, f.rank, f.op, f.source_id, f.record_id, f.created_local_ns,
        count(*) OVER (PARTITION BY i.op_id) AS records,
        count(*) OVER (PARTITION BY f.source_id, f.record_id) AS calls
    FROM base.flight_calls AS f
    JOIN issuing AS i ON f.rank = i.rank AND f.created_local_ns >= i.start_local_ns AND f.created_local_ns <= i.end_local_ns
    WHERE NOT f.is_p2p AND f.seq IS NOT NULL
    QUALIFY records = 1 AND calls = 1
),
linked AS (
    SELECT k.call_id, i.op_id
    FROM base.collective_calls AS k
    JOIN base.host_ops AS h ON h.op_id = k.host_op_id
    JOIN issuing AS i ON h.rank = i.rank AND h.tid = i.tid AND h.start_local_ns BETWEEN i.start_local_ns AND i.end_local_ns
    QUALIFY count(*) OVER (PARTITION BY i.op_id) = 1 AND count(*) OVER (PARTITION BY k.call_id) = 1
),
-- gloo does a reduce_scatter by an all_reduce, so that the loader finds more operations than calls of a kind. A record's name is
-- that of the operation: as there, the n-th goes with the n-th of the kind if there are as many of both.
unlinked_calls AS (
    SELECT call_id, rank, op, start_local_ns, row_number() OVER (of_kind ORDER BY start_local_ns, call_id) AS nth, count(*) OVER of_kind AS total
    FROM base.collective_calls
    WHERE call_id NOT IN (SELECT call_id FROM linked) AND evidence = 'host op'
    WINDOW of_kind AS (PARTITION BY rank, op)
),
unlinked_records AS (
    SELECT *, row_number() OVER (of_kind ORDER BY created_local_ns) AS nth, count(*) OVER of_kind AS total
    FROM noted
    WHERE op_id NOT IN (SELECT op_id FROM linked)
    WINDOW of_kind AS (PARTITION BY rank, op)
),
issued AS (
    SELECT call_id, op_id FROM linked
    UNION ALL
    SELECT k.call_id, f.op_id
    FROM unlinked_calls AS k
    JOIN unlinked_records AS f ON k.rank = f.rank AND k.op = f.op AND k.nth = f.nth AND k.total = f.total
        AND f.issued_ns <= k.start_local_ns
)
SELECT k.call_id, f.source_id, f.record_id, f.group_name, f.group_desc, f.group_ranks, f.seq
FROM noted AS n
JOIN issued USING (op_id)
JOIN base.collective_calls AS k USING (call_id)
JOIN base.flight_calls AS f ON f.source_id = n.source_id AND f.record_id = n.record_id
WHERE f.op = k.op;

UPDATE base.flight_calls AS f SET call_id = j.call_id
FROM joined AS j WHERE f.source_id = j.source_id AND f.record_id = j.record_id;

-- Of calls that no label tells apart all or none: half of them would be taken for groups of their own. A host backend's trace names
-- no call's group: the loader takes that which is listed alone, though the job may have made others since.
CREATE OR REPLACE TEMP TABLE numbered AS
WITH wanting AS (
    SELECT
        k.call_id, k.group_name IS NULL OR k.evidence = 'host op' AS unnamed, k.group_name, j.call_id IS NOT NULL AS found,
        j.* EXCLUDE (call_id, group_name), j.group_name AS found_name
    FROM base.collective_calls AS k LEFT JOIN joined AS j USING (call_id)
    WHERE k.seq IS NULL AND k.comm_id IS NULL AND k.op NOT IN ('send', 'recv')
),
whole AS (
    SELECT group_name
    FROM wanting
    GROUP BY group_name
    HAVING bool_and(found AND (coalesce(group_name = found_name, FALSE) OR unnamed AND group_ranks IS NOT NULL))
)
SELECT w.* REPLACE (coalesce(w.group_name <> w.found_name, TRUE) AS unnamed)
FROM wanting AS w JOIN whole AS o ON w.group_name IS NOT DISTINCT FROM o.group_name;

-- The size of an all_gather is that of what all members gather: the loader took those of another group, or the whole job.
UPDATE base.collective_calls AS k SET
    bytes = CASE WHEN n.unnamed AND k.op = 'all_gather' THEN k.bytes * len(n.group_ranks) // k.group_size ELSE k.bytes END,
    group_name = n.found_name,
    group_desc = CASE WHEN n.unnamed THEN n.group_desc ELSE coalesce(k.group_desc, n.group_desc) END,
    group_ranks = CASE WHEN n.unnamed THEN n.group_ranks ELSE coalesce(k.group_ranks, n.group_ranks) END,
    group_size = CASE WHEN n.unnamed THEN len(n.group_ranks) ELSE k.group_size END,
    seq = n.seq
FROM numbered AS n
WHERE k.call_id = n.call_id;
