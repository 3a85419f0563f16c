-- analysis: host_ops | time of operators on the host and of the GPU work they launched, themselves and in total
-- answers: Which operators take the time, on the host and on the device, themselves and with all they call?
-- topic: time
-- grain: one row per operator name, over all ranks
-- reads: gpu_ops, host_ops, flows
-- param: kind VARCHAR = 'op' | what counts as an operator
-- choice: kind 'op' | PyTorch operators
-- choice: kind 'annotation' | annotations of the PyTorch profiler
-- choice: kind 'nvtx' | NVTX ranges; emit_nvtx makes one for every operator
-- choice: kind 'python' | Python functions, modules among them (nn.Module: ...)
-- param: rank BIGINT = NULL | count this rank only; NULL: all
-- param: step BIGINT = NULL | count operators that began in this step only; NULL: all
-- column: op VARCHAR | name
-- column: count BIGINT | calls
-- column: host_total_ns BIGINT | sum of their durations on the host
-- column: host_self_ns BIGINT | the same without what was recorded directly inside them: operators, ranges, API calls
-- column: host_mean_ns DOUBLE | host_total_ns / count
-- column: host_p50_ns BIGINT | median duration
-- column: host_max_ns BIGINT | longest
-- column: device_total_ns BIGINT | sum of the durations of the GPU ops launched in them, at any depth
-- column: device_self_ns BIGINT | of those launched by them directly, not by a range inside
-- column: gpu_ops BIGINT | GPU ops launched in them, at any depth
-- column: backward_ops BIGINT | backward operators that arrows lead to from them
-- column: device_backward_ns BIGINT | GPU time launched in those; NULL if the trace has no arrows for them
-- column: ranks BIGINT | ranks that called any
-- column: note VARCHAR | why device_backward_ns is NULL; NULL if it is not
-- order: device_total_ns DESC, host_total_ns DESC, op
-- caveat: totals count an operator inside another of the same name twice, and totals of different names overlap; self times do neither.
-- caveat: a GPU op belongs to the operator in whose time, on the same thread, its launching call began; GPU ops without a launch in the trace are in none.
-- caveat: arrows (fwdbwd) come from operators that recorded for autograd, in Kineto traces only; an operator that calls such a one has none itself.
WITH ops AS MATERIALIZED (
    SELECT
        name,
        coalesce(rank, -1) AS rank,
        coalesce(pid, -1) AS pid,
        coalesce(tid, -1) AS tid,
        op_id,
        start_ns,
        end_ns,
        duration_ns
    FROM host_ops
    WHERE kind = $kind
        AND ($rank IS NULL OR rank = $rank)
        AND ($step IS NULL OR step = $step)
),
calls AS MATERIALIZED (
    SELECT
        coalesce(h.rank, -1) AS rank,
        coalesce(h.pid, -1) AS pid,
        coalesce(h.tid, -1) AS tid,
        h.start_ns,
        h.kind,
        h.parent_id,
        g.duration_ns AS gpu_ns
    FROM gpu_ops AS g JOIN host_ops AS h ON h.op_id = g.launch_op_id
    WHERE $rank IS NULL OR g.rank = $rank
),
-- what a thread had launched up to each of its calls
launched AS MATERIALIZED (
    SELECT
        rank,
        pid,
        tid,
        start_ns,
        CAST(sum(sum(gpu_ns)) OVER so_far AS BIGINT) AS gpu_ns,
        CAST(sum(count(*)) OVER so_far AS BIGINT) AS gpu_ops
    FROM calls
    GROUP BY rank, pid, tid, start_ns
    WINDOW so_far AS (PARTITION BY rank, pid, tid ORDER BY start_ns ROWS UNBOUNDED PRECEDING)
),
-- up to the end of an operator minus up to before its start
totals AS (
    SELECT
        o.name,
        CAST(sum(coalesce(z.gpu_ns, 0) - coalesce(a.gpu_ns, 0)) AS BIGINT) AS gpu_ns,
        CAST(sum(coalesce(z.gpu_ops, 0) - coalesce(a.gpu_ops, 0)) AS BIGINT) AS gpu_ops
    FROM ops AS o
    ASOF LEFT JOIN launched AS z
        ON z.rank = o.rank AND z.pid = o.pid AND z.tid = o.tid AND o.end_ns >= z.start_ns
    ASOF LEFT JOIN launched AS a
        ON a.rank = o.rank AND a.pid = o.pid AND a.tid = o.tid AND o.start_ns > a.start_ns
    GROUP BY o.name
),
-- a driver call inside a runtime call was launched by what the runtime call is in
own AS (
    SELECT o.name, CAST(sum(c.gpu_ns) AS BIGINT) AS gpu_ns
    FROM (
        SELECT c.gpu_ns, CASE WHEN p.op_id IS NOT NULL THEN p.parent_id ELSE c.parent_id END AS op_id
        FROM calls AS c
        LEFT JOIN (SELECT op_id, parent_id FROM host_ops WHERE kind = 'runtime') AS p
            ON p.op_id = c.parent_id AND c.kind = 'driver'
    ) AS c
    JOIN ops AS o USING (op_id)
    GROUP BY o.name
),
inside AS (
    SELECT o.name, CAST(sum(least(h.duration_ns, o.duration_ns)) AS BIGINT) AS host_ns
    FROM host_ops AS h JOIN ops AS o ON o.op_id = h.parent_id
    GROUP BY o.name
),
arrows AS MATERIALIZED (
    SELECT
        o.name,
        coalesce(h.rank, -1) AS rank,
        coalesce(h.pid, -1) AS pid,
        coalesce(h.tid, -1) AS tid,
        h.start_ns,
        h.end_ns
    FROM flows AS f
    JOIN ops AS o ON o.op_id = f.from_op_id
    JOIN host_ops AS h ON h.op_id = f.to_op_id
    WHERE f.kind = 'fwdbwd'
),
backward AS (
    SELECT
        b.name,
        count(*) AS backward_ops,
        CAST(sum(coalesce(z.gpu_ns, 0) - coalesce(a.gpu_ns, 0)) AS BIGINT) AS gpu_ns
    FROM arrows AS b
    ASOF LEFT JOIN launched AS z
        ON z.rank = b.rank AND z.pid = b.pid AND z.tid = b.tid AND b.end_ns >= z.start_ns
    ASOF LEFT JOIN launched AS a
        ON a.rank = b.rank AND a.pid = b.pid AND a.tid = b.tid AND b.start_ns > a.start_ns
    GROUP BY b.name
),
hosted AS (
    SELECT
        name,
        count(*) AS count,
        CAST(sum(duration_ns) AS BIGINT) AS host_total_ns,
        tw_percentile(duration_ns, 0.5) AS host_p50_ns,
        max(duration_ns) AS host_max_ns,
        count(DISTINCT nullif(rank, -1)) AS ranks
    FROM ops
    GROUP BY name
)
SELECT
    o.name AS op,
    o.count,
    o.host_total_ns,
    o.host_total_ns - coalesce(i.host_ns, 0) AS host_self_ns,
    tw_ratio(o.host_total_ns, o.count) AS host_mean_ns,
    o.host_p50_ns,
    o.host_max_ns,
    t.gpu_ns AS device_total_ns,
    coalesce(w.gpu_ns, 0) AS device_self_ns,
    t.gpu_ops,
    coalesce(b.backward_ops, 0) AS backward_ops,
    b.gpu_ns AS device_backward_ns,
    o.ranks,
    CASE WHEN b.gpu_ns IS NULL THEN 'no arrows lead from it to a backward operator' END AS note
FROM hosted AS o
JOIN totals AS t USING (name)
LEFT JOIN inside AS i USING (name)
LEFT JOIN own AS w USING (name)
LEFT JOIN backward AS b USING (name)
ORDER BY device_total_ns DESC, host_total_ns DESC, op
