-- analysis: host_ops | time of operators on the host and of the GPU work they launched, self and total
-- answers: Which operators, modules or annotated parts take the time on the host and on the device, self and total?
-- topic: time
-- grain: one row per name, over all ranks
-- needs: host_ops
-- param: kind VARCHAR = 'op' | what counts as an operator
-- choice: kind 'op' | PyTorch operators
-- choice: kind 'annotation' | annotations of the PyTorch profiler
-- choice: kind 'nvtx' | NVTX ranges; emit_nvtx makes one for every operator
-- choice: kind 'python' | Python functions, modules among them
-- choice: kind 'module' | calls of torch.nn.Module objects (nn.Module: ...), which the PyTorch profiler records with stacks or modules
-- param: rank BIGINT = NULL | count this rank only; NULL: all
-- param: step BIGINT = NULL | count operators that began in this step only; NULL: all
-- column: op VARCHAR | name
-- column: count BIGINT | calls
-- column: host_total_ns BIGINT | sum of their durations on the host
-- column: host_self_ns BIGINT | the same without what was recorded directly inside them: operators, ranges, API calls; kind = 'module': without the modules inside
-- column: host_mean_ns DOUBLE | host_total_ns / count
-- column: host_p50_ns BIGINT | median duration
-- column: host_max_ns BIGINT | longest
-- column: device_total_ns BIGINT | sum of the durations of the GPU ops launched in them, at any depth
-- column: device_self_ns BIGINT | of those launched in them, but not in a nested range of the same kind
-- column: gpu_ops BIGINT | GPU ops launched in them, at any depth
-- column: backward_ops BIGINT | backward operators that arrows lead to from operators in them, at any depth
-- column: device_backward_ns BIGINT | GPU time launched in those: the backward pass of these calls; NULL without arrows
-- column: ranks BIGINT | ranks that called any
-- column: note VARCHAR | why device_backward_ns is NULL; NULL if it is not
-- column: host_p95_ns BIGINT | 95th percentile of the durations
-- column: host_p99_ns BIGINT | 99th percentile
-- main: op, count, host_total_ns, host_self_ns, host_p50_ns, host_max_ns, device_total_ns, note
-- order: device_total_ns DESC, host_total_ns DESC, op
-- caveat: the backward pass does not run in modules or annotations of the forward pass: their full cost is device_total_ns + device_backward_ns.
-- caveat: totals count an operator inside another of the same name twice, and totals of different names overlap; self times do neither.
-- caveat: a GPU op belongs to the operator during which, on the same thread, its launching call began; GPU ops without a launch in the trace are in none.
-- caveat: arrows (fwdbwd) come from operators that recorded for autograd: as the PyTorch profiler draws them, or by the sequence numbers in the ranges of emit_nvtx (nsys).
WITH RECURSIVE names AS MATERIALIZED (
    SELECT name, CAST(row_number() OVER () AS INTEGER) AS name_id
    FROM (
        SELECT DISTINCT name FROM host_ops WHERE kind = CASE WHEN {{ param('kind') }} = 'module' THEN 'python' ELSE {{ param('kind') }} END
    )
    WHERE {{ param('kind') }} <> 'module' OR starts_with(name, 'nn.Module: ')
),
ops AS MATERIALIZED (
    SELECT
        n.name_id,
        h.rank,
        hash(h.rank, h.pid, h.tid) AS thread,
        h.op_id,
        h.parent_id,
        h.start_local_ns AS start_ns,
        h.start_local_ns + h.duration_ns AS end_ns,
        h.duration_ns
    FROM host_ops AS h JOIN names AS n USING (name)
    WHERE h.kind = CASE WHEN {{ param('kind') }} = 'module' THEN 'python' ELSE {{ param('kind') }} END
        AND ({{ param('rank') }} IS NULL OR h.rank = {{ param('rank') }})
        AND ({{ param('step') }} IS NULL OR h.step = {{ param('step') }})
),
others AS MATERIALIZED (
    SELECT op_id, parent_id
    FROM host_ops
    WHERE parent_id IS NOT NULL AND kind NOT IN ('runtime', 'driver')
        AND (kind <> {{ param('kind') }} OR {{ param('kind') }} = 'module')
        -- between operators there are none, above them there are very many
        AND (kind <> 'python' OR {{ param('kind') }} IN ('module', 'python'))
        AND op_id NOT IN (SELECT op_id FROM ops WHERE {{ param('kind') }} = 'module')
),
-- the range of the same kind that each is in: its parent, or what that is in
-- up to the first of these operators, where the range around one is of another kind
above AS (
    SELECT a.op_id, o.parent_id FROM ops AS a JOIN others AS o ON o.op_id = a.parent_id
    UNION ALL
    SELECT a.op_id, o.parent_id FROM above AS a JOIN others AS o ON o.op_id = a.parent_id
),
held AS MATERIALIZED (
    SELECT a.op_id, a.name_id, a.thread, a.start_ns, a.end_ns, o.name_id AS holder_id, o.op_id AS held_by
    FROM ops AS a
    LEFT JOIN above AS u ON u.op_id = a.op_id AND u.parent_id IN (SELECT op_id FROM ops)
    LEFT JOIN ops AS o ON o.op_id = coalesce(u.parent_id, a.parent_id)
),
launched AS MATERIALIZED (
    SELECT hash(rank, launch_pid, launch_tid) AS thread, list(launch_start_local_ns) AS moments, list(duration_ns) AS lengths
    FROM gpu_ops
    WHERE launch_start_local_ns IS NOT NULL AND ({{ param('rank') }} IS NULL OR rank = {{ param('rank') }})
    GROUP BY thread
),
-- backward operators that arrows lead to, and what was launched in each
backward AS (
    SELECT
        hash(a.rank, a.pid, a.tid) AS thread,
        a.start_local_ns AS at_ns,
        hash(z.rank, z.pid, z.tid) AS back_thread,
        z.start_local_ns AS start_ns,
        z.start_local_ns + z.duration_ns AS end_ns
    FROM flows AS f
    JOIN host_ops AS a ON a.op_id = f.from_op_id
    JOIN host_ops AS z ON z.op_id = f.to_op_id
    WHERE f.kind = 'fwdbwd' AND ({{ param('rank') }} IS NULL OR f.rank = {{ param('rank') }})
),
arrows AS MATERIALIZED (
    SELECT thread, list(at_ns) AS moments, list(gpu_ns) AS lengths
    FROM (
        SELECT
            unnest(b.threads) AS thread, unnest(b.moments) AS at_ns,
            unnest(sweep_within(coalesce(l.moments, []::BIGINT[]), coalesce(l.lengths, []::BIGINT[]), b.starts, b.ends).total) AS gpu_ns
        FROM (
            SELECT back_thread, list(thread) AS threads, list(at_ns) AS moments, list(start_ns) AS starts, list(end_ns) AS ends
            FROM backward
            GROUP BY back_thread
        ) AS b
        LEFT JOIN launched AS l ON l.thread = b.back_thread
    )
    GROUP BY thread
),
swept AS (
    SELECT
        o.names,
        o.holders,
        sweep_within(coalesce(l.moments, []::BIGINT[]), coalesce(l.lengths, []::BIGINT[]), o.starts, o.ends) AS own,
        sweep_within(coalesce(b.moments, []::BIGINT[]), coalesce(b.lengths, []::BIGINT[]), o.starts, o.ends) AS back
    FROM (
        SELECT thread, list(name_id) AS names, list(holder_id) AS holders, list(start_ns) AS starts, list(end_ns) AS ends
        FROM held
        GROUP BY thread
    ) AS o
    LEFT JOIN launched AS l USING (thread)
    LEFT JOIN arrows AS b USING (thread)
),
sides AS MATERIALIZED (
    SELECT name_id, holder_id, sum(gpu_ns) AS gpu_ns, sum(gpu_ops) AS gpu_ops, sum(back_ns) AS back_ns, sum(back_ops) AS back_ops
    FROM (
        SELECT
            unnest(names) AS name_id, unnest(holders) AS holder_id,
            unnest(own.total) AS gpu_ns, unnest(own.number) AS gpu_ops,
            unnest(back.total) AS back_ns, unnest(back.number) AS back_ops
        FROM swept
    )
    GROUP BY name_id, holder_id
),
totals AS (
    SELECT
        name_id,
        CAST(sum(gpu_ns) AS BIGINT) AS gpu_ns,
        CAST(sum(gpu_ops) AS BIGINT) AS gpu_ops,
        CAST(sum(back_ns) AS BIGINT) AS back_ns,
        CAST(sum(back_ops) AS BIGINT) AS back_ops
    FROM sides
    GROUP BY name_id
),
parts AS (
    SELECT holder_id AS name_id, CAST(sum(gpu_ns) AS BIGINT) AS gpu_ns
    FROM sides
    WHERE holder_id IS NOT NULL
    GROUP BY holder_id
),
inside AS (
    SELECT o.name_id, CAST(sum(least(i.duration_ns, o.duration_ns)) AS BIGINT) AS host_ns
    FROM (
        SELECT parent_id AS held_by, duration_ns FROM host_ops WHERE {{ param('kind') }} <> 'module' AND parent_id IS NOT NULL
        UNION ALL
        SELECT held_by, end_ns - start_ns FROM held WHERE {{ param('kind') }} = 'module' AND held_by IS NOT NULL
    ) AS i
    JOIN ops AS o ON o.op_id = i.held_by
    GROUP BY o.name_id
),
hosted AS (
    SELECT
        name_id,
        count(*) AS count,
        CAST(sum(duration_ns) AS BIGINT) AS host_total_ns,
        tw_percentile(duration_ns, [0.5, 0.95, 0.99]) AS percentiles,
        max(duration_ns) AS host_max_ns,
        count(DISTINCT rank) AS ranks
    FROM ops
    GROUP BY name_id
)
SELECT
    n.name AS op,
    o.count,
    o.host_total_ns,
    o.host_total_ns - coalesce(i.host_ns, 0) AS host_self_ns,
    tw_ratio(o.host_total_ns, o.count) AS host_mean_ns,
    o.percentiles[1] AS host_p50_ns,
    o.host_max_ns,
    t.gpu_ns AS device_total_ns,
    t.gpu_ns - coalesce(p.gpu_ns, 0) AS device_self_ns,
    t.gpu_ops,
    t.back_ops AS backward_ops,
    CASE WHEN t.back_ops > 0 THEN t.back_ns END AS device_backward_ns,
    o.ranks,
    CASE WHEN t.back_ops = 0 THEN 'no arrows lead from it to a backward operator' END AS note,
    o.percentiles[2] AS host_p95_ns,
    o.percentiles[3] AS host_p99_ns
FROM hosted AS o
JOIN names AS n USING (name_id)
JOIN totals AS t USING (name_id)
LEFT JOIN inside AS i USING (name_id)
LEFT JOIN parts AS p USING (name_id)
ORDER BY device_total_ns DESC, host_total_ns DESC, op
