-- shared: late_launches | what held up the process that launched a late collective, where what its GPU did meanwhile is no matter
-- grain: one row per collective whose last rank launched it so late that this is more than half of its lateness
-- needs: collectives, gpu_ops, ref('stretches')
-- column: collective_id BIGINT | the instance
-- column: previous_id BIGINT | the collective that made the ranks even
-- column: sync_ns DOUBLE | how much longer than the others' its threads waited for the GPU
-- column: allocator_ns DOUBLE | allocated or freed memory of the GPU
-- column: code_ns DOUBLE | loaded code
-- column: loading_ns DOUBLE | waited for data
WITH
-- What runs on a GPU can hold a collective up only from its launch on, or where the thread that launches it waits for the
-- GPU before. Where that is less than half of the lateness the host is late, whatever the GPU did meanwhile; what held its
-- threads up for longer than the others' theirs says why: what the one that computes forward does is what the one that
-- reduces gradients waits for. Without a recorded launch, or in a graph, nothing is known of that.
launched AS MATERIALIZED (
    SELECT
        s.collective_id, s.previous_id, s.rank, s.is_last, s.delay_ns, s.from_ns,
        greatest(g.launch_start_local_ns, s.from_ns) AS called_ns,
        greatest(s.start_ns - g.launch_start_local_ns - g.launch_duration_ns, 0) AS queued_ns,
        coalesce(g.launch_pid, -1) AS pid,
        count(*) FILTER (WHERE NOT s.is_last) OVER (PARTITION BY s.collective_id, s.previous_id) AS others
    FROM {{ ref('stretches') }} AS s
    JOIN (SELECT collective_id, rank, min(gpu_op_id) AS gpu_op_id FROM collectives GROUP BY ALL) AS c USING (collective_id, rank)
    JOIN gpu_ops AS g ON g.op_id = c.gpu_op_id
    WHERE g.launch_start_local_ns IS NOT NULL
),
-- not those that only copy: loaders that prefetch
computing AS (
    SELECT DISTINCT rank, coalesce(launch_pid, -1) AS pid, coalesce(launch_tid, -1) AS tid
    FROM gpu_ops
    WHERE category <> 'memory' AND rank IN (SELECT rank FROM launched) AND launch_start_local_ns IS NOT NULL
),
held AS (
    SELECT
        unnest(l.collective_ids) AS collective_id,
        unnest(l.previous_ids) AS previous_id,
        unnest(l.weights) AS weight,
        h.sort,
        unnest(sweep_union_until(h.starts, h.ends, l.until).union_ns)
            - unnest(sweep_union_until(h.starts, h.ends, l.since).union_ns) AS held_ns
    FROM (
        SELECT
            rank, pid,
            list(collective_id) AS collective_ids, list(previous_id) AS previous_ids,
            list(CASE WHEN is_last THEN 1 ELSE -1 / others END) AS weights,
            list(from_ns) AS since, list(called_ns) AS until
        FROM launched
        GROUP BY rank, pid
    ) AS l
    JOIN (
        SELECT rank, pid, sort, list(start_ns ORDER BY start_ns) AS starts, list(end_ns ORDER BY start_ns) AS ends
        FROM tw_holds JOIN computing USING (rank, pid, tid)
        WHERE sort <> 'compilation'
        GROUP BY rank, pid, sort
    ) AS h USING (rank, pid)
)
SELECT
    l.collective_id,
    l.previous_id,
    greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'sync'), 0) AS sync_ns,
    greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'allocator'), 0) AS allocator_ns,
    greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'module_loading'), 0) AS code_ns,
    greatest(sum(h.weight * h.held_ns) FILTER (h.sort = 'data_loading'), 0) AS loading_ns
FROM launched AS l LEFT JOIN held AS h USING (collective_id, previous_id)
WHERE l.is_last AND l.others > 0
GROUP BY l.collective_id, l.previous_id, l.queued_ns, l.delay_ns
HAVING 2 * (l.queued_ns + sync_ns) < l.delay_ns
