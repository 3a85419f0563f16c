-- analysis: pipeline | the stages of a pipeline, their bubble compared with the minimum of the schedule, and what they wait for
-- answers: How long are the stages of the pipeline idle, when, and how much of that does the schedule need?
-- topic: parallelism
-- grain: one row per rank and step, of the ranks that send to and receive from each other in a chain
-- needs: ref('pipeline_traffic')
-- param: group_id BIGINT = NULL | take the sends and receives of this group only; NULL: of all groups that are not known to be for something else, nor communicators of MPI
-- param: release_ns
-- column: rank INTEGER | global rank
-- column: step BIGINT | step; NULL outside any step
-- column: first_rank INTEGER | the rank of the pipeline's first stage: identifies the pipeline; NULL: see note
-- column: stage BIGINT | place in the pipeline, from 0
-- column: stages BIGINT | how many it has
-- column: microbatches BIGINT | messages from the first stage to the second in the step; those that it launches no compute between are one
-- column: schedule VARCHAR | 'gpipe' (all forward, then all backward), '1f1b' (one forward, one backward), 'gpipe or 1f1b' (with no more micro-batches than stages they look the same), 'forward only' or 'other'; NULL if unknown
-- column: in_flight BIGINT | micro-batches that the first stage had sent on before the first gradient came back; NULL if none came
-- column: window_start_ns BIGINT | when the first stage began to compute in the step, common clock
-- column: window_ns BIGINT | from there to the end of the last compute of any stage launched before the optimizer's step
-- column: busy_ns BIGINT | of that, the time in which compute ran on this rank
-- column: bubble_ns BIGINT | the rest = warmup_bubble_ns + steady_bubble_ns + drain_bubble_ns
-- column: bubble_share DOUBLE | bubble_ns / window_ns
-- column: ideal_share DOUBLE | (stages - 1) / (microbatches + stages - 1): the bubble of GPipe and 1F1B with equal stages and messages that take no time; NULL if the schedule is another one
-- column: excess_ns BIGINT | bubble_ns less the part that the schedule needs if all stages are as busy as this one, busy_ns * (stages - 1) / microbatches; negative on stages with more work than others
-- column: equal_ns BIGINT | window_ns if on each stage all micro-batches took equally long, and messages no time: what the stages do for one micro-batch, computing and in collectives that no other stage takes part in, and microbatches - 1 times what the longest does
-- column: warmup_ns BIGINT | of the window, the time until the last stage received its first micro-batch
-- column: steady_ns BIGINT | the time between
-- column: drain_ns BIGINT | the time after the last stage had finished
-- column: warmup_bubble_ns BIGINT | in which this rank did not compute in warmup_ns
-- column: steady_bubble_ns BIGINT | in steady_ns
-- column: drain_bubble_ns BIGINT | in drain_ns
-- column: receives BIGINT | messages received in the step
-- column: receive_wait_ns BIGINT | time from the start of each receive to the start of its send, where the send came later; NULL if not matched
-- column: receive_blocked_ns BIGINT | last stretch of each receive in which no compute ran, if compute resumed right after it: compute stalled for it
-- column: sends BIGINT | messages sent in the step
-- column: send_wait_ns BIGINT | time from the start of each send to the start of its receive, where the receive came later; 0 of one that was over by then; NULL if not matched
-- column: note VARCHAR | why a value is NULL or doubtful
-- main: rank, step, stage, schedule, microbatches, window_ns, busy_ns, bubble_ns, bubble_share, ideal_share, excess_ns, note
-- order: first_rank NULLS LAST, step NULLS FIRST, stage NULLS LAST, rank
-- caveat: of two ranks, the one that sends first in a step is the earlier stage: activations go before gradients.
-- caveat: an interleaved schedule sends from the last stage to the first and so forms a ring, as ring attention does: such ranks are listed with the reason, without numbers.
-- caveat: on ranks without a GPU the interpreter runs between a receive's end and the next operator, 0.1 to 0.5 ms: use release_ns = 1000000 there.
-- caveat: without a range called Optimizer.step# the window extends to the step's last compute, and the bubble includes idle time in the optimizer.
WITH gradients AS (
    SELECT m.rank, m.step, min(m.end_ns) AS first_gradient_ns
    FROM {{ ref('pipeline_messages') }} AS m JOIN {{ ref('pipeline_links') }} AS l ON l.from_rank = m.rank AND l.to_rank = m.peer
    WHERE m.op = 'recv'
    GROUP BY m.rank, m.step
),
-- a micro-batch may be several tensors: those that no compute is launched between
sent AS (
    SELECT *, count(*) FILTER (call_id IS NULL) OVER (PARTITION BY rank ORDER BY issued_ns, begun_ns, call_id NULLS LAST ROWS UNBOUNDED PRECEDING) AS computed
    FROM (
        SELECT m.rank, m.step, m.call_id, m.start_ns, coalesce(d.launch_start_local_ns, k.start_local_ns) AS issued_ns, k.start_local_ns AS begun_ns
        FROM {{ ref('pipeline_messages') }} AS m
        JOIN collectives AS k USING (call_id)
        LEFT JOIN gpu_ops AS d ON d.op_id = k.gpu_op_id
        WHERE m.op = 'send' AND m.rank IN (SELECT first_rank FROM {{ ref('pipeline_stages') }})
        UNION ALL
        SELECT rank, step, NULL, start_ns, coalesce(launch_start_local_ns, start_local_ns), start_local_ns
        FROM device_ops
        WHERE category = 'compute' AND rank IN (SELECT first_rank FROM {{ ref('pipeline_stages') }})
    )
),
flights AS (
    SELECT
        m.rank AS first_rank,
        m.step,
        count(DISTINCT m.computed) AS microbatches,
        CASE WHEN any_value(g.first_gradient_ns) IS NOT NULL
            THEN count(DISTINCT m.computed) FILTER (WHERE m.start_ns < g.first_gradient_ns) END AS in_flight
    FROM sent AS m
    LEFT JOIN gradients AS g ON g.rank = m.rank AND g.step IS NOT DISTINCT FROM m.step
    WHERE m.call_id IS NOT NULL
    GROUP BY m.rank, m.step
),
edges AS MATERIALIZED (
    SELECT
        s.rank,
        w.step AS id,
        unnest([
            {'edge': 1, 'at_ns': w.start_ns},
            {'edge': 2, 'at_ns': greatest(w.start_ns, least(w.full_ns, w.end_ns))},
            {'edge': 3, 'at_ns': greatest(w.start_ns, least(greatest(w.drained_ns, w.full_ns), w.end_ns))},
            {'edge': 4, 'at_ns': w.end_ns}
        ], recursive := TRUE)
    FROM {{ ref('pipeline_windows') }} AS w JOIN {{ ref('pipeline_stages') }} AS s USING (first_rank)
),
reached AS (
    SELECT rank, id AS step, edge, at_ns, at_ns - compute_ns AS idle_ns FROM tw_computed_until('device_ops', 'edges')
),
-- with another stage of its pipeline a stage waits for that; what else it communicates takes as long with any schedule
spanning AS (
    SELECT g.group_id
    FROM groups AS g JOIN {{ ref('pipeline_stages') }} AS s ON list_contains(g.ranks, s.rank)
    GROUP BY g.group_id, s.first_rank
    HAVING count(*) > 1
),
worked AS NOT MATERIALIZED (
    SELECT rank, category, start_ns, end_ns FROM device_ops
    UNION ALL
    SELECT rank, 'compute', start_ns, end_ns
    FROM collectives
    WHERE op NOT IN ('send', 'recv') AND group_id IS NOT NULL AND group_id NOT IN (FROM spanning)
),
own AS (
    SELECT rank, id AS step, max(compute_ns) - min(compute_ns) AS own_ns
    FROM tw_computed_until('worked', 'edges')
    GROUP BY rank, id
    HAVING count(*) = 4
),
measured AS (
    SELECT
        rank,
        step,
        max(at_ns) FILTER (WHERE edge = 1) AS start_ns,
        max(at_ns) FILTER (WHERE edge = 2) AS full_ns,
        max(at_ns) FILTER (WHERE edge = 3) AS drained_ns,
        max(at_ns) FILTER (WHERE edge = 4) AS end_ns,
        max(idle_ns) FILTER (WHERE edge = 1) AS start_idle_ns,
        max(idle_ns) FILTER (WHERE edge = 2) AS full_idle_ns,
        max(idle_ns) FILTER (WHERE edge = 3) AS drained_idle_ns,
        max(idle_ns) FILTER (WHERE edge = 4) AS end_idle_ns
    FROM reached
    GROUP BY rank, step
    HAVING count(*) = 4
),
judged AS (
    SELECT
        x.*,
        s.first_rank, s.stage, s.stages, s.is_chain, s.is_whole, f.microbatches, f.in_flight,
        CASE
            WHEN f.in_flight IS NULL AND f.microbatches IS NOT NULL THEN 'forward only'
            WHEN f.in_flight = f.microbatches AND f.microbatches <= s.stages THEN 'gpipe or 1f1b'
            WHEN f.in_flight = f.microbatches THEN 'gpipe'
            WHEN f.in_flight <= s.stages THEN '1f1b'
            WHEN f.in_flight IS NOT NULL THEN 'other'
        END AS schedule,
        w.has_optimizer,
        n.own_ns,
        m.start_ns,
        m.end_ns - m.start_ns AS window_ns,
        m.end_idle_ns - m.start_idle_ns AS bubble_ns,
        m.full_ns - m.start_ns AS warmup_ns,
        m.drained_ns - m.full_ns AS steady_ns,
        m.end_ns - m.drained_ns AS drain_ns,
        m.full_idle_ns - m.start_idle_ns AS warmup_bubble_ns,
        m.drained_idle_ns - m.full_idle_ns AS steady_bubble_ns,
        m.end_idle_ns - m.drained_idle_ns AS drain_bubble_ns
    FROM {{ ref('pipeline_traffic') }} AS x
    LEFT JOIN {{ ref('pipeline_stages') }} AS s USING (rank)
    LEFT JOIN flights AS f ON f.first_rank = s.first_rank AND f.step IS NOT DISTINCT FROM x.step
    LEFT JOIN {{ ref('pipeline_windows') }} AS w ON w.first_rank = s.first_rank AND w.step IS NOT DISTINCT FROM x.step
    LEFT JOIN measured AS m ON m.rank = x.rank AND m.step IS NOT DISTINCT FROM x.step
    LEFT JOIN own AS n ON n.rank = x.rank AND n.step IS NOT DISTINCT FROM x.step
)
SELECT
    rank,
    step,
    first_rank,
    CAST(stage AS BIGINT) AS stage,
    CAST(stages AS BIGINT) AS stages,
    microbatches,
    schedule,
    in_flight,
    start_ns AS window_start_ns,
    window_ns,
    window_ns - bubble_ns AS busy_ns,
    bubble_ns,
    tw_ratio(bubble_ns, window_ns) AS bubble_share,
    CASE WHEN schedule <> 'other' THEN tw_ratio(stages - 1, microbatches + stages - 1) END AS ideal_share,
    CASE WHEN schedule <> 'other' THEN
        CAST(round(bubble_ns - (window_ns - bubble_ns) * (stages - 1) / microbatches) AS BIGINT) END AS excess_ns,
    CASE WHEN schedule <> 'other' THEN
        CAST(round((sum(own_ns) OVER pipeline + (microbatches - 1) * max(own_ns) OVER pipeline) / microbatches) AS BIGINT) END AS equal_ns,
    warmup_ns, steady_ns, drain_ns, warmup_bubble_ns, steady_bubble_ns, drain_bubble_ns, receives,
    CASE WHEN is_matched THEN coalesce(receive_wait_ns, 0) END AS receive_wait_ns,
    coalesce(receive_blocked_ns, 0) AS receive_blocked_ns,
    sends,
    CASE WHEN is_matched THEN coalesce(send_wait_ns, 0) END AS send_wait_ns,
    nullif(concat_ws('; ',
        CASE
            WHEN first_rank IS NULL AND is_blind THEN 'not computable: which ranks are the other sides of its messages is not known: issues says why'
            WHEN first_rank IS NULL THEN 'not computable: its messages do not form a chain; an interleaved pipeline and ring attention form a ring'
            WHEN NOT is_chain THEN 'not computable: several ranks share a stage'
            WHEN NOT is_whole THEN 'not computable: not every stage was recorded'
            WHEN window_ns IS NULL THEN 'not computable: in this step some stage has no message or no compute'
        END,
        CASE WHEN schedule = 'other' THEN 'neither GPipe nor 1F1B: its minimum bubble is unknown' END,
        CASE WHEN NOT has_optimizer THEN 'no optimizer range: the window extends to the last compute of the step' END,
        CASE WHEN NOT is_matched THEN 'some messages were seen on one side only' END
    ), '') AS note
FROM judged
WINDOW pipeline AS (PARTITION BY first_rank, step)
ORDER BY first_rank NULLS LAST, step NULLS FIRST, stage NULLS LAST, rank
