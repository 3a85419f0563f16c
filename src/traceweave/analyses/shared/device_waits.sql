-- shared: device_waits | in which operators the host waits for the device in steps, and for what
-- grain: one row per operator, and sort of wait
-- needs: host_ops
-- column: sort VARCHAR | 'read': the host reads a value, or copies from the device; 'write': it copies to the device; 'own': an operator that does neither; 'call': it waits outside of operators
-- column: operator VARCHAR | innermost around the calls; NULL: none
-- column: is_pinned BOOLEAN | all it copies to the device comes from pinned memory
-- column: wait_ns BIGINT | time in these calls, over all ranks and steps
-- column: calls BIGINT | calls per step of a rank, rounded
WITH copies AS MATERIALIZED (
    SELECT
        launch_op_id AS op_id, any_value(copy_kind) AS copy_kind,
        bool_or(tw_can_stall(copy_kind, name, NULL)) AS can_stall,
        max(start_local_ns + duration_ns) AS until_ns
    FROM gpu_ops
    WHERE kind = 'memcpy' AND copy_kind IN ('HtoD', 'DtoH') AND launch_op_id IS NOT NULL
    GROUP BY launch_op_id
),
called AS MATERIALIZED (
    -- one that returns only when its copy has ended waits for it, unless the memory is pinned
    SELECT c.op_id, h.parent_id, c.copy_kind, c.can_stall, c.can_stall AND h.start_local_ns + h.duration_ns >= c.until_ns AS is_waiting
    FROM copies AS c JOIN host_ops AS h USING (op_id)
),
-- what an operator copies; a range around a loop copies all sorts
copying AS MATERIALIZED (
    SELECT c.parent_id, min(c.copy_kind) AS copy_kind, bool_or(c.can_stall) AS can_stall
    FROM called AS c JOIN host_ops AS p ON p.op_id = c.parent_id
    WHERE p.kind = 'op' OR starts_with(p.name, 'aten::')
    GROUP BY c.parent_id
    HAVING min(c.copy_kind) = max(c.copy_kind)
),
-- where kernels follow what it copies to the device, it waits for them: cuDNN as it tries its algorithms
within AS (
    FROM copying WHERE copy_kind = 'DtoH' OR parent_id NOT IN (
        SELECT h.parent_id FROM gpu_ops AS g JOIN host_ops AS h ON h.op_id = g.launch_op_id
        WHERE g.kind = 'kernel' AND h.parent_id IN (SELECT parent_id FROM copying)
    )
),
-- few of all calls: what is around them is looked up for these alone
calls AS MATERIALIZED (
    SELECT h.parent_id, h.duration_ns, k.copy_kind, k.can_stall
    FROM host_ops AS h
    LEFT JOIN called AS k ON k.op_id = h.op_id
    WHERE h.kind IN ('runtime', 'driver')
        AND tw_counts(h.rank, h.step)
        AND (h.name IN (SELECT name FROM tw_call_names WHERE waits_for IS NOT NULL) OR k.is_waiting)
),
waits AS (
    SELECT
        CASE WHEN p.kind = 'op' OR starts_with(p.name, 'aten::') THEN coalesce(c.name, p.name) END AS operator,
        coalesce(h.copy_kind, w.copy_kind) AS copy_kind,
        coalesce(h.can_stall, w.can_stall) AS can_stall,
        h.duration_ns
    FROM calls AS h
    LEFT JOIN host_ops AS p ON p.op_id = h.parent_id
    -- which is how torch records the arguments of a collective, inside the operator that asks for it
    LEFT JOIN host_ops AS c ON c.op_id = p.parent_id AND p.name = 'record_param_comms'
    LEFT JOIN within AS w ON w.parent_id = h.parent_id
    WHERE coalesce(p.kind NOT IN ('runtime', 'driver'), TRUE)
)
SELECT
    CASE
        WHEN copy_kind = 'HtoD' THEN 'write'
        WHEN copy_kind = 'DtoH' OR {{ names('synchronizing', 'operator') }} IS NOT NULL OR contains(operator, 'copy') THEN 'read'
        WHEN operator IS NOT NULL THEN 'own'
        ELSE 'call'
    END AS sort,
    operator,
    coalesce(bool_and(copy_kind = 'HtoD' AND NOT can_stall), FALSE) AS is_pinned,
    CAST(sum(duration_ns) AS BIGINT) AS wait_ns,
    CAST(round(count(*) / any_value(w.windows)) AS BIGINT) AS calls
FROM waits CROSS JOIN (SELECT sum(windows) AS windows FROM {{ ref('rank_windows') }}) AS w
GROUP BY ALL
