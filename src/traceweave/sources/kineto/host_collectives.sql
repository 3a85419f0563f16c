-- Operations of host backends such as gloo -> new_collective_calls. Input: new_host_ops, only_groups (of the file's
-- pg_config), new_source.

-- Of several groups, gloo's threads may tell which one a call belongs to, once all files are there: if they are all known.
INSERT INTO base.listed_groups BY NAME
WITH listed AS (
    SELECT
        s.rank, source_id, row_number() OVER (PARTITION BY source_id ORDER BY g.rowid) AS place,
        g.name AS group_name, g.description AS group_desc, g.ranks AS group_ranks, s.world_size,
        len(g.ranks) > 0 OR g.size = s.world_size AS known
    FROM new_groups AS g
    JOIN new_source AS s USING (source_id)
    SEMI JOIN (SELECT source_of(op_id) AS source_id FROM new_host_ops WHERE kind = 'annotation' AND starts_with(name, 'gloo:')) AS o USING (source_id)
)
SELECT * EXCLUDE (known) REPLACE (nullif(group_ranks, CAST(range(world_size) AS INTEGER[])) AS group_ranks)
FROM listed
SEMI JOIN (FROM listed SELECT source_id GROUP BY source_id HAVING count(*) > 1 AND count(rank) > 0 AND bool_and(coalesce(known, false))) AS whole USING (source_id);

-- Host backends: the annotation of the worker thread is the operation. Nothing links it to the call that issued it, so
-- the n-th call of a kind goes with the n-th operation of that kind, if there are as many of both. A reduce_scatter is an all_reduce of gloo,
-- which may have no operation of that name.
INSERT INTO new_collective_calls BY NAME
WITH named AS (
    SELECT source_of(op_id) AS source_id, op_id, kind, tid, start_local_ns, duration_ns, args, collective_op(name) AS op
    FROM new_host_ops
    WHERE (kind = 'annotation' AND collective_range(name) = 'host') OR (kind = 'op' AND collective_range(name) = 'issue')
),
worked AS (
    SELECT n.* REPLACE (CASE WHEN n.kind = 'op' AND n.op = 'reduce_scatter' AND o.op IS NULL THEN 'all_reduce' ELSE n.op END AS op)
    FROM named AS n
    LEFT JOIN (SELECT DISTINCT source_id, op FROM named WHERE kind = 'annotation') AS o ON o.source_id = n.source_id AND o.op = n.op
),
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY source_id, kind, op ORDER BY start_local_ns, op_id) AS nth,
        count(*) OVER (PARTITION BY source_id, kind, op) AS total
    FROM worked
)
SELECT
    s.rank,
    NULL AS gpu_op_id,
    coalesce(c.op_id, o.op_id) AS host_op_id,
    o.op,
    g.name AS group_name,
    g.description AS group_desc,
    g.ranks AS group_ranks,
    coalesce(g.size, s.world_size) AS group_size,
    NULL AS comm_id,
    NULL AS seq,
    json_extract_string(o.args, '$."Input type"[0]') AS dtype,
    TRY_CAST(CAST(first_tensor_elements(o.args) AS HUGEINT) * dtype_bytes(dtype) * CASE WHEN o.op = 'all_gather' THEN coalesce(g.size, s.world_size) ELSE 1 END AS BIGINT) AS bytes,
    NULL AS peer,
    o.tid AS stream,
    o.start_local_ns,
    o.duration_ns,
    'host op' AS evidence
FROM numbered AS o
JOIN new_source AS s USING (source_id)
LEFT JOIN numbered AS c
    ON c.source_id = o.source_id AND c.kind = 'op' AND c.op = o.op AND c.nth = o.nth AND c.total = o.total AND c.start_local_ns <= o.start_local_ns
LEFT JOIN only_groups AS g ON g.source_id = o.source_id
WHERE o.kind = 'annotation';
