-- Operations of host backends such as gloo -> new_collective_calls. Input: new_host_ops, host_names, only_groups (of the file's
-- pg_config), new_source.

-- Which of its groups a call of gloo belongs to, its thread may tell once all files are there: if they are all known.
INSERT INTO base.listed_groups BY NAME
WITH listed AS (
    SELECT
        s.rank, source_id, row_number() OVER (PARTITION BY source_id ORDER BY g.rowid) AS place,
        g.name AS group_name, g.description AS group_desc, g.ranks AS group_ranks, s.world_size,
        len(g.ranks) > 0 OR g.size = s.world_size AS known
    FROM new_groups AS g
    JOIN (FROM new_source WHERE NOT is_merged) AS s USING (source_id)
    SEMI JOIN (SELECT source_of(op_id) AS source_id FROM new_host_ops WHERE kind = 'annotation' AND starts_with(name, 'gloo:')) AS o USING (source_id)
)
SELECT * EXCLUDE (known) REPLACE (nullif(group_ranks, CAST(range(world_size) AS INTEGER[])) AS group_ranks)
FROM listed
SEMI JOIN (SELECT source_id FROM listed GROUP BY source_id HAVING count(rank) > 0 AND bool_and(coalesce(known, FALSE))) AS whole USING (source_id);

-- The list is that of the moment when the profiler started. A group is made since in a call that records nothing: the pauses
-- of a thread that issues collectives, in which no operation of it ran and none of gloo's. No call of the job comes between
-- the start of the profiler and the first of its steps.
INSERT INTO base.pauses BY NAME
WITH gloo AS (
    SELECT source_of(op_id) AS source_id, rank, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM new_host_ops
    WHERE kind = 'annotation' AND starts_with(name, 'gloo:') AND collective_op(name) NOT IN ('send', 'recv')
),
sources AS (SELECT DISTINCT source_id, rank FROM gloo SEMI JOIN base.listed_groups USING (source_id)),
issuing AS (
    SELECT DISTINCT source_of(op_id) AS source_id, tid
    FROM new_host_ops SEMI JOIN (FROM host_names WHERE kind = 'op' AND part = 'issue') AS n USING (kind, name)
),
threads AS (SELECT s.source_id, s.rank, i.tid FROM sources AS s LEFT JOIN issuing AS i USING (source_id)),
own AS (
    SELECT t.source_id, t.tid, h.kind, h.name, h.start_local_ns AS start_ns, h.start_local_ns + h.duration_ns AS end_ns
    FROM new_host_ops AS h JOIN threads AS t ON t.source_id = source_of(h.op_id) AND t.tid = h.tid
    WHERE h.kind IN ('op', 'annotation')
),
firsts AS (SELECT source_id, min(start_ns) AS start_ns, arg_min(name, start_ns) AS name FROM own GROUP BY ALL),
windows AS (
    SELECT s.source_id, CASE WHEN starts_with(f.name, 'ProfilerStep#') THEN f.start_ns ELSE w.start_ns END AS start_ns
    FROM sources AS s
    LEFT JOIN firsts AS f USING (source_id)
    LEFT JOIN (
        SELECT source_id, min(start_local_ns) AS start_ns FROM base.other_events
        WHERE category = 'trace' AND starts_with(name, 'PyTorch Profiler') GROUP BY ALL
    ) AS w USING (source_id)
),
busy AS (
    SELECT source_id, tid, start_ns, end_ns FROM own WHERE kind = 'op'
    UNION ALL SELECT source_id, tid, start_ns, start_ns AS end_ns FROM own WHERE kind = 'annotation'
    UNION ALL SELECT source_id, tid, end_ns AS start_ns, end_ns FROM own WHERE kind = 'annotation'
    UNION ALL SELECT source_id, tid, g.start_ns, g.end_ns FROM threads JOIN gloo AS g USING (source_id)
    -- what cannot be seen of a window's beginning may have been long
    UNION ALL SELECT source_id, tid, coalesce(w.start_ns, 0), coalesce(w.start_ns, 0) FROM threads JOIN windows AS w USING (source_id)
),
after AS (
    SELECT
        *, max(end_ns) OVER (PARTITION BY source_id, tid ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS since_ns
    FROM busy
)
SELECT DISTINCT rank, source_id, since_ns AS start_local_ns, start_ns - since_ns AS duration_ns
FROM after JOIN sources USING (source_id)
WHERE start_ns - since_ns >= least_pause_ns();

-- Messages of gloo. Operations that nobody waited for end when the profiler stops. Third and fourth argument of a call are the other side and the tag.
CREATE OR REPLACE TEMP TABLE new_messages AS
WITH issued AS (
    SELECT rank, op_id, tid, name, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns, args
    FROM new_host_ops
    WHERE kind = 'op' AND name IN ('c10d::send', 'c10d::recv_', 'c10d::recv_any_source_')
),
worked AS (
    SELECT rank, op_id, tid, start_local_ns AS start_ns, start_local_ns + duration_ns AS end_ns
    FROM new_host_ops
    WHERE kind = 'annotation' AND starts_with(name, 'gloo:') AND collective_op(name) IN ('send', 'recv')
),
sources AS (SELECT DISTINCT rank FROM issued),
seen AS (
    SELECT h.rank, min(h.start_local_ns) AS from_ns, max(h.start_local_ns) AS to_ns, max(h.start_local_ns + h.duration_ns) AS last_ns
    FROM new_host_ops AS h JOIN sources AS s ON s.rank = h.rank
    GROUP BY ALL
),
stated AS (
    SELECT rank, min(start_local_ns) AS from_ns, max(start_local_ns + duration_ns) AS to_ns
    FROM base.other_events SEMI JOIN (FROM sources JOIN new_source USING (rank)) AS s USING (rank, source_id)
    WHERE category = 'trace' AND starts_with(name, 'PyTorch Profiler')
    GROUP BY ALL
),
windows AS (
    SELECT s.rank, coalesce(t.from_ns, s.from_ns) AS from_ns, coalesce(t.to_ns, s.to_ns) AS to_ns, least(coalesce(t.to_ns, s.last_ns - 1), s.last_ns - 1) AS known_ns
    FROM seen AS s LEFT JOIN stated AS t USING (rank)
),
begun AS (
    SELECT w.op_id, w.end_ns, i.op_id AS issue_id
    FROM worked AS w ASOF JOIN issued AS i ON w.rank = i.rank AND w.tid = i.tid AND w.start_ns >= i.start_ns
    WHERE w.start_ns <= i.end_ns
)
SELECT
    i.rank, i.op_id AS issue_id, w.op_id, i.name, i.start_ns AS issued_local_ns, CASE WHEN w.end_ns <= v.known_ns THEN w.end_ns END AS waited_local_ns,
    CASE WHEN i.name <> 'c10d::recv_any_source_' THEN TRY_CAST(json_extract_string(i.args, '$."Concrete Inputs"[2]') AS INTEGER) END AS peer_place,
    TRY_CAST(json_extract_string(i.args, '$."Concrete Inputs"[3]') AS BIGINT) AS tag,
    v.from_ns AS recorded_from_ns, v.to_ns AS recorded_to_ns
FROM issued AS i
JOIN windows AS v USING (rank)
LEFT JOIN begun AS w ON w.issue_id = i.op_id;

INSERT INTO base.messages BY NAME
SELECT
    s.rank, s.source_id, m.issue_id AS host_op_id, CASE WHEN m.op_id IS NOT NULL THEN m.peer_place END AS peer_place, m.tag, m.issued_local_ns, m.waited_local_ns,
    m.recorded_from_ns, m.recorded_to_ns
FROM new_messages AS m JOIN new_source AS s USING (rank)
WHERE s.rank IS NOT NULL;

-- Host backends: the annotation of the worker thread is the operation. Nothing links it to the call that issued it, so
-- the n-th call of a kind goes with the n-th operation of that kind, if there are as many of both. Two threads may begin two
-- operations the other way round: where sizes of inputs, too, are as often among calls as among operations, they are of the kind.
-- A reduce_scatter is an all_reduce of gloo, which may have no operation of that name. An operation of a message begins inside its call, on the same thread, and may do so once the message is received:
-- it starts with its call. An operator may also be
-- the operation itself (in shared memory, of vLLM and SGLang); its tensor comes after what tells the group.
INSERT INTO new_collective_calls BY NAME
WITH every AS (
    SELECT h.rank, h.op_id, n.part, h.tid, h.start_local_ns, h.duration_ns, h.args, n.op
    FROM new_host_ops AS h
    JOIN (
        SELECT *, collective_op(name) AS op FROM host_names
        WHERE (kind = 'annotation' AND part = 'host') OR (kind = 'op' AND part IN ('operator', 'issue'))
    ) AS n USING (kind, name)
),
-- what a thread exchanges within an operator that is the operation (a monitored barrier) is part of that
named AS (
    SELECT e.*
    FROM every AS e
    ASOF LEFT JOIN (FROM every WHERE part = 'operator') AS o ON o.rank = e.rank AND o.tid = e.tid AND o.start_local_ns < e.start_local_ns
    WHERE e.part <> 'host' OR coalesce(o.start_local_ns + o.duration_ns < e.start_local_ns, TRUE)
),
worked AS (
    SELECT n.* REPLACE (CASE WHEN n.part = 'issue' AND n.op = 'reduce_scatter' AND o.op IS NULL THEN 'all_reduce' ELSE n.op END AS op)
    FROM named AS n
    LEFT JOIN (SELECT DISTINCT rank, op FROM named WHERE part = 'host') AS o ON o.rank = n.rank AND o.op = n.op
),
sized AS (
    SELECT *, CASE part WHEN 'issue' THEN input_elements(args) ELSE first_tensor_elements(args) END AS size FROM worked
),
alike AS (
    SELECT rank, op
    FROM sized
    GROUP BY ALL
    HAVING list_sort(list(size) FILTER (part = 'issue')) = list_sort(list(size) FILTER (part = 'host'))
),
numbered AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY rank, part, op, size ORDER BY start_local_ns, op_id) AS nth,
        count(*) OVER (PARTITION BY rank, part, op, size) AS total
    FROM (SELECT s.* REPLACE (CASE WHEN a.op IS NOT NULL THEN s.size END AS size) FROM sized AS s LEFT JOIN alike AS a USING (rank, op))
)
SELECT
    s.rank,
    NULL AS gpu_op_id,
    coalesce(m.issue_id, c.op_id, o.op_id) AS host_op_id,
    o.op,
    g.name AS group_name,
    g.description AS group_desc,
    g.ranks AS group_ranks,
    coalesce(g.size, s.world_size) AS group_size,
    NULL AS comm_id,
    NULL AS seq,
    CASE o.part WHEN 'host' THEN json_extract_string(o.args, '$."Input type"[0]') ELSE json_extract_string(o.args, '$."Input type"[1]') END AS dtype,
    TRY_CAST(CAST(CASE o.part WHEN 'host' THEN first_tensor_elements(o.args) ELSE elements(TRY_CAST(json_extract(o.args, '$."Input Dims"[1]') AS BIGINT[])) END AS HUGEINT) * dtype_bytes(dtype) * CASE WHEN o.op = 'all_gather' THEN coalesce(g.size, s.world_size) ELSE 1 END AS BIGINT) AS bytes,
    NULL AS peer,
    CASE WHEN has_root(o.op) THEN TRY_CAST(json_extract_string(c.args, CASE o.op WHEN 'broadcast' THEN '$."Concrete Inputs"[2]' ELSE '$."Concrete Inputs"[3]' END) AS INTEGER) END AS root_place,
    o.tid AS stream,
    coalesce(m.issued_local_ns, o.start_local_ns) AS start_local_ns,
    o.start_local_ns + o.duration_ns - coalesce(m.issued_local_ns, o.start_local_ns) AS duration_ns,
    'host op' AS evidence
FROM numbered AS o
JOIN new_source AS s USING (rank)
LEFT JOIN numbered AS c
    ON c.rank = o.rank AND o.part = 'host' AND c.part = 'issue' AND c.op = o.op AND c.size IS NOT DISTINCT FROM o.size AND c.nth = o.nth AND c.total = o.total
    AND c.start_local_ns <= o.start_local_ns
    AND o.op NOT IN ('send', 'recv')
LEFT JOIN new_messages AS m ON m.op_id = o.op_id
-- which of the groups that a file lists its threads serve, all files together tell
LEFT JOIN only_groups AS g
    ON g.rank = o.rank AND (o.op IN ('send', 'recv') OR g.source_id NOT IN (SELECT source_id FROM base.listed_groups))
WHERE o.part IN ('host', 'operator');
