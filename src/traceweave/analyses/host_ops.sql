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
above AS (
    SELECT op_id, parent_id FROM ops WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT a.op_id, o.parent_id FROM above AS a JOIN others AS o ON o.op_id = a.parent_id
),
held AS MATERIALIZED (
    SELECT a.op_id, o.name_id AS holder_id, o.op_id AS held_by
    FROM above AS a JOIN ops AS o ON o.op_id = a.parent_id
),
-- of the ranges: up to the end minus up to before the start
sides AS MATERIALIZED (
    SELECT
        o.name_id,
        h.holder_id,
        sum(coalesce(z.gpu_ns, 0) - coalesce(a.gpu_ns, 0)) AS gpu_ns,
        sum(coalesce(z.gpu_ops, 0) - coalesce(a.gpu_ops, 0)) AS gpu_ops,
        sum(coalesce(z.back_ns, 0) - coalesce(a.back_ns, 0)) AS back_ns,
        sum(coalesce(z.back_ops, 0) - coalesce(a.back_ops, 0)) AS back_ops
    FROM (SELECT name_id, op_id, thread, start_ns, end_ns FROM ops) AS o
    ASOF LEFT JOIN {{ ref('launched_until') }} AS z ON z.thread = o.thread AND o.end_ns >= z.at_ns
    ASOF LEFT JOIN {{ ref('launched_until') }} AS a ON a.thread = o.thread AND o.start_ns > a.at_ns
    LEFT JOIN held AS h USING (op_id)
    GROUP BY o.name_id, h.holder_id
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
        SELECT held_by, duration_ns FROM held JOIN ops USING (op_id) WHERE {{ param('kind') }} = 'module'
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
