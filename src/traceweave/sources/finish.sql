-- Staging tables -> base tables: what is left after place.sql (ops) and doubts.sql. Input: new_steps (steps.sql), launched,
-- placed, ranks_with_steps, new_doubts, new_collective_calls, new_ranks, finish_source(format, step_range).

INSERT INTO base.doubts BY NAME
SELECT d.*, r.source_id FROM new_doubts AS d JOIN (SELECT DISTINCT rank, source_id FROM new_ranks) AS r USING (rank);

INSERT INTO base.steps BY NAME
WITH followed AS (
    SELECT
        rank, step,
        lead(start_local_ns) OVER in_order - start_local_ns AS period_ns,
        lead((rank, step) IN (SELECT (rank, step) FROM new_doubts WHERE is_unknown)) OVER in_order AS is_unknown
    FROM new_steps
    WINDOW in_order AS (PARTITION BY rank ORDER BY start_local_ns)
),
on_device AS (
    SELECT g.rank, l.step, min(g.start_local_ns) AS first_ns, max(g.start_local_ns + g.duration_ns) AS last_ns
    FROM (SELECT op_id, rank, start_local_ns, duration_ns FROM new_gpu_ops) AS g JOIN launched AS l USING (op_id)
    WHERE l.step IS NOT NULL
    GROUP BY g.rank, l.step
),
-- where the next step is unknown, and with it its first op: as long as the host took to get there
tiled AS (
    SELECT
        d.rank, d.step, d.first_ns,
        CASE WHEN n.is_unknown THEN greatest(d.last_ns, d.first_ns + n.period_ns)
            ELSE coalesce(lead(d.first_ns) OVER (PARTITION BY d.rank ORDER BY d.first_ns), d.last_ns) END AS end_ns
    FROM on_device AS d LEFT JOIN followed AS n USING (rank, step)
),
-- no other step tells where the only one of a rank begins and ends on the device: where its ops take less than half of its
-- range (the capture of a graph, say), it is as long as that
lone AS (
    SELECT n.rank, n.step, n.start_local_ns AS start_ns, n.start_local_ns + n.duration_ns AS end_ns
    FROM new_steps AS n JOIN tiled AS t USING (rank, step)
    WHERE n.source <> 'recording' AND 2 * (t.end_ns - t.first_ns) < n.duration_ns
        AND n.rank IN (SELECT rank FROM new_steps GROUP BY rank HAVING count(*) = 1)
)
SELECT
    s.rank, s.step, r.source_id, s.start_local_ns, s.duration_ns,
    least(t.first_ns, l.start_ns) AS device_start_local_ns, greatest(t.end_ns, l.end_ns) AS device_end_local_ns,
    s.source, s.kind
FROM new_steps AS s
LEFT JOIN lone AS l USING (rank, step)
JOIN (SELECT DISTINCT rank, source_id FROM new_ranks) AS r USING (rank)
LEFT JOIN tiled AS t USING (rank, step)
-- brief ranges that hold no GPU op mark no steps of its work
WHERE s.rank NOT IN (SELECT rank FROM ranks_with_steps WHERE is_brief) OR s.rank IN (SELECT rank FROM on_device);

INSERT INTO base.collective_calls BY NAME
WITH calls AS (SELECT *, source_of(coalesce(gpu_op_id, host_op_id)) AS source_id FROM new_collective_calls)
SELECT
    c.source_id::BIGINT * 1000000000
        + row_number() OVER (PARTITION BY c.source_id ORDER BY c.rank, c.start_local_ns, c.gpu_op_id, c.host_op_id, c.op, c.peer, c.bytes) AS call_id,
    c.rank, c.source_id, c.gpu_op_id, c.receive_op_id, c.host_op_id,
    CASE WHEN c.op IN ('dispatch', 'combine') THEN 'all_to_all' ELSE c.op END AS op,
    CASE WHEN c.op IN ('dispatch', 'combine') THEN c.op END AS kind,
    c.group_name, c.group_desc, c.group_ranks, c.group_size, c.comm_id,
    c.comm_rank, c.comm_peer, c.seq, c.dtype, c.bytes, c.peer, c.root_place, c.stream, c.start_local_ns, c.duration_ns,
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
    JOIN (FROM host_names WHERE kind IN ('runtime', 'driver') AND {{ names('launching', 'name') }} IN ('kernel', 'graph')) AS n USING (kind, name)
    GROUP BY h.rank
),
-- or NCCL is called more often than its rank ran anything, as by a profiler that is older than the driver: each call over
-- several ranks runs a kernel, if not as part of a graph
asking AS (
    SELECT h.rank, count(*) AS calls
    FROM (SELECT rank, kind, name FROM new_host_ops) AS h
    JOIN (
        FROM host_names
        WHERE kind = 'nvtx' AND regexp_matches(name, '^nccl(AllReduce|AllGather|ReduceScatter|Reduce|Broadcast|AllToAll)$')
    ) AS n USING (kind, name)
    WHERE (SELECT count(*) > 1 OR max(world_size) > 1 FROM new_ranks)
        AND NOT EXISTS (FROM host_names WHERE kind IN ('runtime', 'driver') AND {{ names('launching', 'name') }} = 'graph')
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
    SELECT rank, mode(device) AS device, count(*) AS ops FROM new_gpu_ops GROUP BY rank
)
SELECT
    r.rank, r.source_id, r.rank_source, r.host, r.pid, coalesce(r.device, d.device) AS device,
    coalesce(
        r.gpu_name,
        list_filter(r.gpu_names, lambda n: n.device = coalesce(r.device, d.device))[1].name,
        -- numbers of one list need not be those of the other (CUDA_VISIBLE_DEVICES); all of one model are that one
        CASE WHEN len(list_distinct(list_transform(r.gpu_names, lambda n: n.name))) = 1 THEN r.gpu_names[1].name END
    ) AS gpu_name,
    r.world_size, r.backend, r.nccl_version, f.format, e.first_ns AS first_local_ns, e.last_ns AS last_local_ns,
    e.tick_ns, r.base_ns,
    CASE WHEN d.rank IS NULL THEN coalesce(l.launches, a.calls) WHEN a.calls > d.ops THEN a.calls END AS launches, CASE WHEN d.rank IS NULL THEN t.tasks END AS unread_tasks
FROM new_ranks AS r
CROSS JOIN finish_source AS f
LEFT JOIN extents AS e USING (rank)
LEFT JOIN devices AS d USING (rank)
LEFT JOIN launching AS l USING (rank)
LEFT JOIN asking AS a USING (rank)
LEFT JOIN tasks AS t USING (rank);
