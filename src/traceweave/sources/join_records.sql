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
),
told AS (
    SELECT k.call_id, f.source_id, f.record_id, f.group_name, f.group_desc, f.group_ranks, f.seq, k.rank, k.source_id AS trace_id,
        CASE WHEN k.gpu_op_id IS NULL AND k.stream <> h.tid THEN k.stream END AS worker
    FROM noted AS n
    JOIN issued USING (op_id)
    JOIN base.collective_calls AS k USING (call_id)
    JOIN base.flight_calls AS f ON f.source_id = n.source_id AND f.record_id = n.record_id
    LEFT JOIN base.host_ops AS h ON h.op_id = k.host_op_id
    WHERE f.op = k.op
),
-- A worker thread of gloo serves one group. Where groups are asked at once they begin in another order, and calls got others' records.
crossed AS (
    SELECT rank FROM told WHERE worker IS NOT NULL GROUP BY rank, trace_id, worker HAVING count(DISTINCT group_name) > 1
)
SELECT call_id, source_id, record_id, group_name, group_desc, group_ranks, seq
FROM told ANTI JOIN crossed USING (rank);

UPDATE base.flight_calls AS f SET call_id = j.call_id
FROM joined AS j WHERE f.source_id = j.source_id AND f.record_id = j.record_id;

-- Of calls that no label tells apart all or none: half of them would be taken for groups of their own. A host backend's trace names
-- no call's group; one that is listed alone is probably it, though the job may have made others since.
CREATE OR REPLACE TEMP TABLE numbered AS
WITH alone AS (
    SELECT
        source_id, any_value(group_name) AS name, any_value(group_desc) AS description,
        coalesce(any_value(group_ranks), CAST(range(any_value(world_size)) AS INTEGER[])) AS ranks
    FROM base.listed_groups GROUP BY source_id HAVING count(*) = 1
),
stated AS (
    SELECT
        k.call_id, k.evidence, coalesce(k.group_name, a.name) AS group_name, coalesce(k.group_desc, a.description) AS group_desc,
        coalesce(k.group_ranks, a.ranks) AS group_ranks, coalesce(len(a.ranks), k.group_size) AS group_size
    FROM base.collective_calls AS k
    LEFT JOIN alone AS a ON a.source_id = k.source_id AND k.evidence = 'host op' AND k.gpu_op_id IS NULL AND k.group_name IS NULL
    WHERE k.seq IS NULL AND k.comm_id IS NULL AND k.op NOT IN ('send', 'recv')
),
wanting AS (
    SELECT
        s.*, s.group_name IS NULL OR s.evidence = 'host op' AS unnamed, j.call_id IS NOT NULL AS found,
        j.group_name AS found_name, j.group_desc AS found_desc, j.group_ranks AS found_ranks, j.seq AS found_seq
    FROM stated AS s LEFT JOIN joined AS j USING (call_id)
),
whole AS (
    SELECT group_name
    FROM wanting
    GROUP BY group_name
    HAVING bool_and(found AND (coalesce(group_name = found_name, FALSE) OR unnamed AND found_ranks IS NOT NULL))
)
SELECT w.* REPLACE (coalesce(w.group_name <> w.found_name, TRUE) AS unnamed)
FROM wanting AS w JOIN whole AS o ON w.group_name IS NOT DISTINCT FROM o.group_name;

-- The size of an all_gather is that of what all members gather: the loader took those of the whole job.
INSERT INTO base.inferences BY NAME
WITH told AS (
    SELECT
        call_id, found_name AS group_name, found_seq AS seq,
        CASE WHEN unnamed THEN found_desc ELSE coalesce(group_desc, found_desc) END AS group_desc,
        CASE WHEN unnamed THEN found_ranks ELSE coalesce(group_ranks, found_ranks) END AS group_ranks,
        CASE WHEN unnamed THEN len(found_ranks) ELSE coalesce(group_size, len(found_ranks)) END AS group_size
    FROM numbered
),
new AS (
    SELECT
        t.*, k.op, k.bytes, k.group_size AS stated_size,
        (k.group_name IS DISTINCT FROM t.group_name OR k.group_ranks IS NULL AND t.group_ranks IS NOT NULL) AS is_new
    FROM told AS t JOIN base.collective_calls AS k USING (call_id)
)
SELECT
    call_id, 'flight recorder' AS evidence, seq,
    CASE WHEN is_new THEN group_name END AS group_name,
    CASE WHEN is_new THEN group_desc END AS group_desc,
    CASE WHEN is_new THEN group_ranks END AS group_ranks,
    CASE WHEN is_new THEN group_size END AS group_size,
    CASE WHEN op = 'all_gather' AND group_size <> stated_size THEN bytes * group_size // stated_size END AS bytes
FROM new;
