-- analysis: ddp_buckets | each gradient bucket of data parallelism: when its gradients were ready, when they were reduced, and how much of that no compute hid
-- answers: Are the gradients reduced while the backward pass goes on, and how long does the last reduction outlast it?
-- topic: parallelism
-- grain: one row per rank, step and gradient bucket
-- needs: collectives
-- within: rank
-- param: group_id BIGINT = NULL | treat the all-reduces of this group as gradient buckets; NULL: of all groups that the traces show to be data parallel
-- param: min_bytes BIGINT = 1024 | smaller all-reduces are not buckets (losses, norms), where the host side does not show it
-- column: rank INTEGER | global rank
-- column: step BIGINT | step in which the bucket was issued; NULL outside any step
-- column: group_id INTEGER | process group
-- column: bucket BIGINT | place among the group's buckets of the step, from 1, in the order in which the rank issued them
-- column: buckets BIGINT | how many the group has in the step
-- column: bytes BIGINT | size; NULL if the trace does not say
-- column: asked_ns BIGINT | when the host asked for the reduction, common clock; NULL if not recorded
-- column: ready_ns BIGINT | when its gradients were there: end of the last compute launched before it, or asked_ns if that is later; NULL: see note
-- column: start_ns BIGINT | when the reduction started on this rank, common clock
-- column: end_ns BIGINT | when it ended
-- column: duration_ns BIGINT | length, waiting for other ranks included
-- column: queue_ns BIGINT | start_ns - ready_ns: how long ready gradients waited, usually behind an earlier bucket; NULL without ready_ns
-- column: wait_ns BIGINT | of the duration, the time until the last rank had started; NULL if no other rank was seen
-- column: exposed_ns BIGINT | of the duration, the time in which no compute ran
-- column: hidden_fraction DOUBLE | the rest / duration_ns, 0 to 1; NULL if that is 0
-- column: tail_ns BIGINT | of the group's last bucket of the step: from when its gradients were ready, which is when the backward pass has ended, to the end of the last reduction; NULL for the others
-- column: evidence VARCHAR | 'gradient' (issued where autograd accumulates gradients, or FSDP reduces them), 'group' (any all-reduce of a data-parallel group) or 'operation' (any all-reduce: the traces do not show what the group is for)
-- column: note VARCHAR | why a value is NULL or doubtful
-- main: rank, step, group_id, bucket, bytes, start_ns, duration_ns, queue_ns, wait_ns, exposed_ns, note
-- order: rank, step NULLS FIRST, group_id NULLS LAST, bucket
-- caveat: where the trace shows gradients being accumulated on a rank, only all-reduces issued there are buckets; elsewhere size and group decide.
-- caveat: launches are ordered by the profiler's correlation numbers, which grow in the order of the calls.
-- caveat: on a rank without a GPU the gradients are ready when the host asks.
WITH roles AS MATERIALIZED (
    SELECT * FROM tw_group_roles({{ param('group_id') }}, 'dp')
),
issues AS MATERIALIZED (
    SELECT * FROM tw_collective_issue()
),
reductions AS MATERIALIZED (
    SELECT
        k.call_id,
        k.rank,
        k.step,
        k.group_id,
        k.bytes,
        k.collective_id,
        k.gpu_op_id,
        k.start_ns,
        k.end_ns,
        k.duration_ns,
        i.asked_ns,
        CASE WHEN i.asked_by = 'gradient' THEN 'gradient'
             WHEN r.used_for = 'dp' THEN 'group' ELSE 'operation' END AS evidence,
        bool_or(coalesce(i.asked_by = 'gradient', FALSE)) OVER (PARTITION BY k.rank) AS shows_gradients
    FROM collectives AS k
    LEFT JOIN roles AS r USING (group_id)
    LEFT JOIN issues AS i USING (call_id)
    WHERE k.op = 'all_reduce'
        AND (k.gpu_op_id IS NOT NULL OR k.rank IN (SELECT rank FROM tw_timelines WHERE timeline = 'cpu'))
        AND CASE WHEN {{ param('group_id') }} IS NULL THEN coalesce(r.used_for, 'dp') = 'dp' ELSE k.group_id = {{ param('group_id') }} END
),
buckets AS MATERIALIZED (
    SELECT r.*, g.correlation, g.source_id
    FROM reductions AS r LEFT JOIN gpu_ops AS g ON g.op_id = r.gpu_op_id
    WHERE r.evidence = 'gradient' OR (NOT r.shows_gradients AND coalesce(r.bytes >= {{ param('min_bytes') }}, TRUE))
),
-- when all compute launched up to each launch has ended
launched AS (
    SELECT
        rank,
        source_id,
        correlation,
        max(end_ns) OVER (
            PARTITION BY rank, source_id ORDER BY correlation ROWS UNBOUNDED PRECEDING
        ) AS computed_ns
    FROM gpu_ops
    WHERE category = 'compute' AND correlation IS NOT NULL AND rank IN (SELECT rank FROM buckets)
),
readied AS (
    SELECT
        b.*,
        CASE WHEN b.gpu_op_id IS NULL THEN b.asked_ns
             WHEN l.computed_ns IS NOT NULL THEN greatest(l.computed_ns, b.asked_ns) END AS ready_ns
    FROM buckets AS b
    ASOF LEFT JOIN launched AS l
        ON l.rank = b.rank AND l.source_id = b.source_id AND b.correlation > l.correlation
),
ordered AS MATERIALIZED (
    SELECT
        r.*,
        row_number() OVER (
            PARTITION BY r.rank, r.step, r.group_id ORDER BY coalesce(r.asked_ns, r.start_ns), r.start_ns, r.call_id
        ) AS bucket,
        count(*) OVER whole AS buckets,
        max(r.ready_ns) OVER whole AS last_ready_ns,
        max(r.end_ns) OVER whole AS last_end_ns
    FROM readied AS r
    WINDOW whole AS (PARTITION BY r.rank, r.step, r.group_id)
)
SELECT
    o.rank,
    o.step,
    o.group_id,
    o.bucket,
    o.buckets,
    o.bytes,
    o.asked_ns,
    o.ready_ns,
    o.start_ns,
    o.end_ns,
    o.duration_ns,
    o.start_ns - o.ready_ns AS queue_ns,
    w.wait_ns,
    e.exposed_ns,
    tw_ratio(o.duration_ns - e.exposed_ns, o.duration_ns) AS hidden_fraction,
    CASE WHEN o.bucket = o.buckets THEN o.last_end_ns - o.last_ready_ns END AS tail_ns,
    o.evidence,
    nullif(concat_ws('; ',
        CASE WHEN o.evidence = 'operation' THEN 'the traces do not show what the group is for: it may not be a gradient bucket' END,
        CASE WHEN o.step IS NULL THEN 'outside any step: buckets are counted over the whole run' END,
        CASE WHEN o.ready_ns IS NULL THEN 'no compute launched before it is in the trace' END,
        CASE WHEN o.bytes IS NULL THEN 'the trace does not say how many bytes' END,
        CASE WHEN w.rank IS NULL THEN 'seen on one rank only' END
    ), '') AS note
FROM ordered AS o
LEFT JOIN tw_collective_exposure('ordered', 0) AS e USING (call_id)
LEFT JOIN tw_shared_waits() AS w ON w.collective_id = o.collective_id AND w.rank = o.rank
ORDER BY o.rank, o.step NULLS FIRST, o.group_id NULLS LAST, o.bucket
