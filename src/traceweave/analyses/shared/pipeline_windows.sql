-- shared: pipeline_windows | from when to when the step of a pipeline lasts, when it was full, and when it began to drain
-- grain: one row per pipeline and step in which every stage has messages and compute; times on the common clock
-- needs: ref('pipeline_stages'), ref('pipeline_traffic')
-- column: first_rank INTEGER | the rank of the first stage
-- column: step BIGINT | step; NULL outside any step
-- column: has_optimizer BOOLEAN | all stages have a range of the optimizer's
-- column: start_ns BIGINT | when the first stage began to compute
-- column: end_ns BIGINT | end of the last compute of any stage launched before the optimizer's step
-- column: full_ns BIGINT | when the last stage had received its first micro-batch
-- column: drained_ns BIGINT | when the last stage had finished
WITH optimizers AS (
    SELECT rank, step, min(start_ns) AS optimizer_ns
    FROM tw_updates
    WHERE rank IN (SELECT rank FROM {{ ref('pipeline_stages') }})
    GROUP BY rank, step
),
computed AS (
    SELECT
        d.rank,
        d.step,
        min(d.start_ns) AS first_ns,
        max(d.end_ns) AS last_ns
    FROM device_ops AS d
    WHERE d.category = 'compute' AND d.rank IN (SELECT rank FROM {{ ref('pipeline_stages') }})
    GROUP BY d.rank, d.step
),
-- only what comes after a rank's last message can be the optimizer's
passes AS (
    SELECT d.rank, d.step, max(d.end_ns) AS last_pass_ns
    FROM device_ops AS d
    JOIN {{ ref('pipeline_traffic') }} AS x ON x.rank = d.rank AND x.step IS NOT DISTINCT FROM d.step AND d.end_ns >= x.last_message_ns
    JOIN optimizers AS z ON z.rank = d.rank AND z.step IS NOT DISTINCT FROM d.step
    LEFT JOIN host_ops AS h ON h.op_id = d.launch_op_id
    WHERE d.category = 'compute' AND coalesce(h.start_ns, d.start_ns) < z.optimizer_ns
    GROUP BY d.rank, d.step
),
spans AS (
    SELECT
        p.*,
        x.step, x.last_message_ns, x.first_received_ns, c.first_ns,
        CASE WHEN z.optimizer_ns IS NOT NULL THEN coalesce(l.last_pass_ns, x.last_message_ns) ELSE c.last_ns END AS last_ns,
        z.optimizer_ns IS NOT NULL AS has_optimizer
    FROM {{ ref('pipeline_stages') }} AS p
    JOIN {{ ref('pipeline_traffic') }} AS x USING (rank)
    LEFT JOIN computed AS c ON c.rank = x.rank AND c.step IS NOT DISTINCT FROM x.step
    LEFT JOIN passes AS l ON l.rank = x.rank AND l.step IS NOT DISTINCT FROM x.step
    LEFT JOIN optimizers AS z ON z.rank = x.rank AND z.step IS NOT DISTINCT FROM x.step
)
SELECT
    s.first_rank,
    s.step,
    bool_and(s.has_optimizer) AS has_optimizer,
    min(s.first_ns) FILTER (WHERE s.stage = 0) AS start_ns,
    max(s.last_ns) AS end_ns,
    max(s.first_received_ns) FILTER (WHERE s.rank = s.last_rank) AS full_ns,
    max(s.last_ns) FILTER (WHERE s.rank = s.last_rank) AS drained_ns
FROM spans AS s
WHERE s.is_chain AND s.is_whole
GROUP BY s.first_rank, s.step
HAVING count(s.first_ns) = any_value(s.stages)
