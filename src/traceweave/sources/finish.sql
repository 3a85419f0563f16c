-- Staging tables -> base tables, every op put into its step. Of one source, or of several that have no rank in common.
-- Input: new_gpu_ops, new_host_ops as link.sql leaves them, classified (classify.sql), host_names,
-- updates (updates.sql), parents (nesting.py), new_steps (steps.sql), new_collective_calls, new_ranks, finish_source(format, step_range).
-- What is sorted is narrow (ids and times); the wide rows pass by once, through hash joins.

-- Where each host op lies: in its parent, and in the step it starts in.
CREATE OR REPLACE TEMP TABLE placed AS
WITH stepped AS (
    SELECT h.op_id, CASE WHEN h.start_local_ns < s.start_local_ns + s.duration_ns THEN s.step END AS step
    FROM (SELECT rank, op_id, start_local_ns FROM new_host_ops) AS h
    ASOF LEFT JOIN new_steps AS s ON h.rank = s.rank AND h.start_local_ns >= s.start_local_ns
)
SELECT op_id, p.depth, p.parent_id, s.step FROM stepped AS s LEFT JOIN parents AS p USING (op_id);

DROP TABLE parents;  -- what is dropped need not go to disk

INSERT INTO base.host_ops BY NAME
SELECT
    h.rank, h.op_id, source_of(h.op_id) AS source_id, h.kind, h.name, h.pid, h.tid, h.start_local_ns, h.duration_ns,
    p.depth, p.parent_id, p.step, h.correlation, h.sequence, h.arguments_hash, h.args
FROM new_host_ops AS h
LEFT JOIN placed AS p USING (op_id);

-- What a GPU op's launch tells of it: the step, the operator around it if that is known to do one thing, and what most questions ask
-- of the call. Narrow, so that the wide rows pass through one join.
CREATE OR REPLACE TEMP TABLE launched AS
WITH told AS (SELECT kind, name, vocabulary('operators', name) AS class FROM host_names WHERE kind IN ('op', 'nvtx')),
operators AS (SELECT h.op_id, t.class FROM new_host_ops AS h JOIN told AS t USING (kind, name) WHERE t.class IS NOT NULL)
SELECT
    g.op_id, l.step, o.class AS operator_class, h.start_local_ns AS launch_start_local_ns, h.duration_ns AS launch_duration_ns,
    h.pid AS launch_pid, h.tid AS launch_tid, h.name AS launch_call
FROM (SELECT op_id, launch_op_id FROM new_gpu_ops WHERE launch_op_id IS NOT NULL) AS g
JOIN (SELECT op_id, start_local_ns, duration_ns, pid, tid, name FROM new_host_ops) AS h ON h.op_id = g.launch_op_id
JOIN placed AS l ON l.op_id = g.launch_op_id
LEFT JOIN operators AS o ON o.op_id = l.parent_id;

-- What a kernel computes is told by its operator, else by its name.
INSERT INTO base.gpu_ops BY NAME
WITH told AS (
    SELECT
        g.*, l.* EXCLUDE (op_id), c.category, c.class AS class_of_name,
        coalesce(CASE WHEN g.kind = 'kernel' AND c.category = 'compute' THEN l.operator_class END, u.class) AS class_of_operator
    FROM new_gpu_ops AS g
    LEFT JOIN classified AS c USING (kind, name)
    LEFT JOIN launched AS l USING (op_id)
    LEFT JOIN updates AS u USING (op_id)
)
SELECT
    t.* EXCLUDE (operator_class, class_of_name, class_of_operator),
    source_of(op_id) AS source_id,
    coalesce(class_of_operator, class_of_name) AS class,
    CASE WHEN kind = 'kernel' THEN CASE WHEN class_of_operator IS NULL THEN 'name' ELSE 'operator' END END AS class_source
FROM told AS t;

INSERT INTO base.steps BY NAME
WITH on_device AS (
    SELECT g.rank, l.step, min(g.start_local_ns) AS first_ns, max(g.start_local_ns + g.duration_ns) AS last_ns
    FROM (SELECT op_id, rank, start_local_ns, duration_ns FROM new_gpu_ops) AS g JOIN launched AS l USING (op_id)
    WHERE l.step IS NOT NULL
    GROUP BY g.rank, l.step
),
tiled AS (
    SELECT rank, step, first_ns, coalesce(lead(first_ns) OVER (PARTITION BY rank ORDER BY first_ns), last_ns) AS end_ns FROM on_device
),
-- no other step tells where the only one of a rank begins and ends on the device: where its ops take less than half of its
-- range (the capture of a graph, say), it is as long as that
lone AS (
    SELECT n.rank, n.step, n.start_local_ns AS start_ns, n.start_local_ns + n.duration_ns AS end_ns
    FROM new_steps AS n JOIN tiled AS t USING (rank, step)
    WHERE 2 * (t.end_ns - t.first_ns) < n.duration_ns
        AND n.rank IN (SELECT rank FROM new_steps GROUP BY rank HAVING count(*) = 1)
)
SELECT
    s.rank, s.step, r.source_id, s.start_local_ns, s.duration_ns,
    least(t.first_ns, l.start_ns) AS device_start_local_ns, greatest(t.end_ns, l.end_ns) AS device_end_local_ns,
    s.source, s.kind
FROM new_steps AS s
LEFT JOIN lone AS l USING (rank, step)
JOIN (SELECT DISTINCT rank, source_id FROM new_ranks) AS r USING (rank)
LEFT JOIN tiled AS t USING (rank, step);

INSERT INTO base.collective_calls BY NAME
WITH calls AS (SELECT *, source_of(coalesce(gpu_op_id, host_op_id)) AS source_id FROM new_collective_calls)
SELECT
    c.source_id::BIGINT * 1000000000
        + row_number() OVER (PARTITION BY c.source_id ORDER BY c.rank, c.start_local_ns, c.gpu_op_id, c.host_op_id, c.op, c.peer, c.bytes) AS call_id,
    c.rank, c.source_id, c.gpu_op_id, c.receive_op_id, c.host_op_id, c.op, c.group_name, c.group_desc, c.group_ranks, c.group_size, c.comm_id,
    c.comm_rank, c.comm_peer, c.seq, c.dtype, c.bytes, c.peer, c.stream, c.start_local_ns, c.duration_ns,
    CASE WHEN c.gpu_op_id IS NULL THEN h.step ELSE l.step END AS step, c.evidence
FROM calls AS c
LEFT JOIN launched AS l ON l.op_id = c.gpu_op_id
LEFT JOIN placed AS h ON h.op_id = c.host_op_id;

INSERT INTO base.rank_sources BY NAME
WITH extents AS (
    SELECT
        rank,
        min(start_local_ns) AS first_ns,
        max(start_local_ns + duration_ns) AS last_ns,
        CASE WHEN bool_and(duration_ns % 1000 = 0) THEN 1000 ELSE 1 END AS tick_ns
    FROM (
        SELECT rank, start_local_ns, duration_ns FROM new_host_ops
        UNION ALL SELECT rank, start_local_ns, duration_ns FROM new_gpu_ops
    )
    GROUP BY rank
),
-- GPU work that is not recorded: calls launch it, or the file has it in a form that is not read (msprof's "Ascend Hardware")
launching AS (
    SELECT h.rank, count(*) AS launches
    FROM (SELECT rank, kind, name FROM new_host_ops) AS h
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND vocabulary('launching', name) IN ('kernel', 'graph')) AS n USING (kind, name)
    GROUP BY h.rank
),
tasks AS (
    SELECT e.rank, count(*) AS tasks
    FROM base.other_events AS e
    JOIN (
        SELECT DISTINCT source_id, pid FROM base.other_events
        WHERE phase = 'M' AND name = 'process_name' AND regexp_matches(args->>'name', '(?i)\bhardware$')
    ) AS p USING (source_id, pid)
    WHERE e.phase = 'X' AND e.source_id IN (SELECT source_id FROM new_ranks)
    GROUP BY e.rank
),
devices AS (
    SELECT rank, mode(device) AS device FROM new_gpu_ops GROUP BY rank
)
SELECT
    r.rank, r.source_id, r.rank_source, r.host, r.pid, coalesce(r.device, d.device) AS device,
    coalesce(r.gpu_name, list_filter(r.gpu_names, lambda n: n.device = coalesce(r.device, d.device))[1].name) AS gpu_name,
    r.world_size, r.backend, r.nccl_version, f.format, e.first_ns AS first_local_ns, e.last_ns AS last_local_ns,
    e.tick_ns, r.base_ns,
    CASE WHEN d.rank IS NULL THEN l.launches END AS launches, CASE WHEN d.rank IS NULL THEN t.tasks END AS unread_tasks
FROM new_ranks AS r
CROSS JOIN finish_source AS f
LEFT JOIN extents AS e USING (rank)
LEFT JOIN devices AS d USING (rank)
LEFT JOIN launching AS l USING (rank)
LEFT JOIN tasks AS t USING (rank);
