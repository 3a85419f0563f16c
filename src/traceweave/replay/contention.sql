-- What kernels lose to contention, from tw_beside: how long each ran beside what (see contention.py).
--
-- Calls of a kernel do the same work where its launch is equal (name, grid, block) and
-- * they are the same node of a CUDA graph, or
-- * they are the same launch, by its place, of calls of one operator with inputs of the same shapes and types, or
-- * where shapes are not recorded, they have the same place among as many equal launches of their steps.
-- Of work that was done alone W, in calls that communication ran beside for b of their d the share x = (d - W) / b of that
-- time is lost: x is the median over calls beside one operation, and each call loses x b. With b = d, d / W = 1 / (1 - x).

-- table: tw_contention | one row per kernel beside communication or a copy: op_id, beside ('communication' or 'copy'), operation (of the collective, or 'copy'), op_ns, beside_ns (how long of it), alone_ns (median of the same work alone), lost_ns (NULL where it cannot be compared), why (it cannot)
CREATE OR REPLACE TEMP TABLE tw_contention AS
WITH ops AS (
    SELECT
        rank, op_id, kernel, op_ns, copy_ns, beside_op_id,
        -- a tenth of a kernel that starts before the last one ends is no concurrency
        compute_ns > 0.1 * op_ns AS is_crowded,
        communication_ns + copy_ns = 0 AND NOT is_crowded AS is_alone,
        CASE WHEN communication_ns > 0 THEN 'communication' WHEN copy_ns > 0 THEN 'copy' END AS beside,
        CASE WHEN communication_ns > 0 THEN communication_ns ELSE copy_ns END AS beside_ns
    FROM tw_beside
),
-- only what ran both alone and beside something is looked at in full: by name first, as arguments are long, and read before
-- they are joined with anything
launches AS MATERIALIZED (
    SELECT o.*, g.* EXCLUDE (op_id)
    FROM ops AS o JOIN (
        SELECT
            op_id, graph_node, launch_op_id, step, hash(name, json_extract_string(args, ['$.grid', '$.block'])) AS launch,
            coalesce(launch_start_local_ns, start_local_ns) AS at_ns, start_local_ns AS start_ns
        FROM gpu_ops SEMI JOIN (SELECT rank, kernel FROM ops GROUP BY rank, kernel HAVING bool_or(is_alone) AND bool_or(beside IS NOT NULL)) AS n
            ON n.rank = gpu_ops.rank AND n.kernel = (hash(name) >> 1)::BIGINT
    ) AS g USING (op_id)
),
-- calls of an operator with equal arguments have equal shapes: one of each is read
shapes AS MATERIALIZED (
    SELECT h.name, h.arguments_hash, hash(h.name, json_extract_string(h.args, ['$.Input Dims', '$.Input type'])) AS shapes
    FROM (SELECT min(op_id) AS op_id FROM host_ops WHERE kind = 'op' AND arguments_hash IS NOT NULL GROUP BY name, arguments_hash)
    JOIN host_ops AS h USING (op_id)
    WHERE regexp_matches(json_extract_string(h.args, '$.Input Dims'), '[0-9]')
),
works AS MATERIALIZED (
    SELECT
        o.op_id, o.rank, o.op_ns, o.is_alone,
        CASE
            WHEN o.graph_node IS NOT NULL THEN hash(o.launch, 'graph', o.graph_node)
            WHEN s.shapes IS NOT NULL THEN hash(o.launch, s.shapes, row_number() OVER (among ORDER BY o.at_ns, o.start_ns))
            WHEN o.step IS NOT NULL THEN hash(o.launch, row_number() OVER (among ORDER BY o.at_ns, o.start_ns), count(*) OVER among)
        END AS work
    FROM launches AS o
    SEMI JOIN (SELECT rank, launch FROM launches GROUP BY rank, launch HAVING bool_or(is_alone) AND bool_or(beside IS NOT NULL)) AS n USING (rank, launch)
    LEFT JOIN host_ops AS c ON c.op_id = o.launch_op_id
    LEFT JOIN host_ops AS p ON p.op_id = c.parent_id AND p.kind = 'op'
    LEFT JOIN shapes AS s ON s.name = p.name AND s.arguments_hash = p.arguments_hash
    WINDOW among AS (PARTITION BY o.rank, CASE WHEN s.shapes IS NULL THEN o.step ELSE p.op_id END, s.shapes IS NULL, o.launch)
),
alone AS (
    SELECT
        rank, work, count(*) AS calls, median(op_ns) AS alone_ns,
        quantile_disc(op_ns, 0.9) / greatest(quantile_disc(op_ns, 0.1), 1) AS spread
    FROM works
    WHERE is_alone AND work IS NOT NULL
    GROUP BY rank, work
),
operations AS (
    SELECT beside_op_id, min(op) AS operation
    FROM (SELECT op, unnest([gpu_op_id, receive_op_id]) AS beside_op_id FROM collectives)
    GROUP BY beside_op_id
),
named AS MATERIALIZED (
    SELECT o.*, w.work, w.op_id IS NOT NULL AS is_work, CASE o.beside WHEN 'copy' THEN 'copy' ELSE coalesce(n.operation, 'unknown') END AS operation
    FROM ops AS o LEFT JOIN works AS w USING (op_id)
    LEFT JOIN operations AS n ON n.beside_op_id = o.beside_op_id
    WHERE o.beside IS NOT NULL
),
-- of a call that something ran beside for less than half of it, little is told of that
shares AS (
    SELECT n.rank, n.work, n.operation, count(*) AS calls, median((n.op_ns - a.alone_ns) / n.beside_ns) AS share
    FROM named AS n JOIN alone AS a USING (rank, work)
    WHERE n.beside_ns >= 0.5 * n.op_ns AND NOT n.is_crowded AND (n.beside = 'copy' OR n.copy_ns = 0)
    GROUP BY n.rank, n.work, n.operation
),
judged AS (
    SELECT
        n.*, a.alone_ns, s.share,
        CASE
            WHEN n.is_crowded THEN 'other compute ran at the same time'
            WHEN n.work IS NULL AND n.is_work THEN 'neither shapes nor steps tell which calls do the same work'
            WHEN a.calls IS NULL THEN 'the same work never runs alone'
            WHEN a.calls < 3 OR coalesce(s.calls, 0) < 3 THEN 'fewer than 3 calls of the same work, alone or beside it'
            WHEN a.spread > 1.5 THEN 'calls of equal shapes differ when alone too'
            WHEN a.alone_ns < 5 * r.tick_ns THEN 'shorter than 5 ticks of the trace''s clock'
        END AS why
    FROM named AS n
    JOIN ranks AS r USING (rank)
    LEFT JOIN alone AS a USING (rank, work)
    LEFT JOIN shares AS s ON s.rank = n.rank AND s.work = n.work AND s.operation = n.operation
)
SELECT op_id, beside, operation, op_ns, beside_ns, alone_ns, CASE WHEN why IS NULL THEN share * beside_ns END AS lost_ns, why
FROM judged;
