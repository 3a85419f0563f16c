-- shared: sending_less | by what a run can send less than it does: not by what it does already
-- grain: one row per use of communication
-- needs: ref('exposed_calls')
-- column: use VARCHAR | as in exposed_calls
-- column: again VARCHAR | that DDP or FSDP reduces gradients in several backward passes of an update, or DDP sends buffers; NULL: not known to
-- column: once VARCHAR | what to do about it
-- column: gone VARCHAR | where DDP does: no transfers, and without these calls nobody waits in them either, so it gains at least as much; NULL: not known
-- column: kind VARCHAR | the use before the word communication, with a blank behind it
-- column: ways VARCHAR | in words
-- column: advice VARCHAR | the same as a sentence
-- column: fewer VARCHAR | the same where its calls are small: what makes them fewer, if anything does
WITH forwards AS (
    SELECT use, rank, start_ns, lead(start_ns) OVER (PARTITION BY use, rank, pid ORDER BY start_ns) AS next_ns
    FROM (SELECT CASE name WHEN 'FSDP::root_pre_forward' THEN 'fsdp' ELSE 'ddp' END AS use, rank, pid, start_ns FROM host_ops WHERE name IN ('DistributedDataParallel.forward', 'FSDP::root_pre_forward'))
),
-- where gradients are summed up after each: parameters by autograd, units by fully_shard; those that are added to what no update has used up yet
parts AS (
    SELECT
        rank, start_ns,
        CASE WHEN starts_with(name, 'FSDP::') THEN 'fsdp' ELSE 'ddp' END AS use,
        name = 'torch::autograd::AccumulateGrad' OR starts_with(name, 'FSDP::post_backward_accumulate') AS is_one,
        starts_with(name, 'FSDP::post_backward_reduce') AS is_reduced,
        (is_one AND use = 'ddp' OR is_reduced) AND op_id IN (SELECT parent_id FROM host_ops WHERE name = 'aten::add_' AND parent_id IS NOT NULL) AS adds
    FROM host_ops
    WHERE (name IN (SELECT name FROM tw_range_names WHERE autograd = 'gradient' OR name = 'torch::autograd::AccumulateGrad') OR starts_with(name, 'FSDP::post_backward_'))
        AND EXISTS (FROM forwards)
),
summed AS (
    SELECT f.use, f.rank, f.start_ns, count(*) FILTER (g.is_one) AS gradients, count(*) FILTER (g.adds) AS added
    FROM parts AS g ASOF JOIN forwards AS f ON f.use = g.use AND f.rank = g.rank AND g.start_ns >= f.start_ns
    GROUP BY f.use, f.rank, f.start_ns
),
-- a forward pass with the backward pass that follows before the next
passes AS (
    SELECT
        f.use,
        f.rank,
        u.start_ns AS update_ns,
        g.gradients,
        g.added,
        coalesce(s.asked_ns < f.next_ns, s.asked_ns IS NOT NULL) AS sends,
        f.next_ns IS NULL AS is_last
    FROM forwards AS f
    JOIN summed AS g USING (use, rank, start_ns)
    ASOF LEFT JOIN (
        SELECT 'ddp' AS use, k.rank, i.asked_ns FROM tw_collective_issue() AS i JOIN collectives AS k USING (call_id) WHERE i.asked_by = 'gradient'
        UNION ALL SELECT use, rank, start_ns FROM parts WHERE is_reduced
    ) AS s ON s.use = f.use AND s.rank = f.rank AND s.asked_ns >= f.start_ns
    ASOF LEFT JOIN tw_updates AS u ON u.rank = f.rank AND u.start_ns >= f.start_ns
),
-- Of an update whose passes all send the same gradients, all but the first send what they add to those that were sent
-- already. The gradients of other parameters the last pass would not send.
updates AS (
    SELECT
        use,
        count(*) FILTER (sends) AS sent,
        sent > 1 AND bool_and(sends) AND min(gradients) = max(gradients) AND min(added) = 0
            AND count(*) FILTER (added = gradients) = sent - 1 AS is_again
    FROM passes
    GROUP BY use, rank, update_ns
    HAVING update_ns IS NOT NULL
),
accumulation AS (
    -- of several backward passes gradients are summed up before they are sent, if one has sent none before the next forward pass
    SELECT count(*) > 0 AS is_there FROM passes WHERE use = 'ddp' AND NOT sends AND NOT is_last
),
-- where that is most of what is sent
again AS (
    SELECT use, sent FROM updates GROUP BY use, sent QUALIFY 2 * sum(sent) FILTER (is_again) > sum(sum(sent)) OVER (PARTITION BY use)
),
-- each type is looked up once
types AS (
    SELECT dtype, CAST({{ names('element_types', 'lower(dtype)') }} AS INTEGER) AS bytes FROM (SELECT DISTINCT dtype FROM collectives)
),
of_types AS (
    SELECT e.use, coalesce(2 * sum(k.duration_ns) FILTER (WHERE t.bytes <= 2) >= sum(k.duration_ns), FALSE) AS is_short
    FROM {{ ref('exposed_calls') }} AS e JOIN collectives AS k USING (call_id) LEFT JOIN types AS t USING (dtype)
    GROUP BY e.use
),
ddp AS (
    SELECT CASE WHEN count(DISTINCT group_id) = 1 THEN ' group=' || any_value(group_id) ELSE '' END AS of_group FROM {{ ref('exposed_calls') }} WHERE use = 'ddp'
),
ways AS (
    SELECT
        use,
        sent,
        CASE WHEN use = 'ddp' AND sent > 1 THEN format('op=all_reduce{} wait=none; kind=transfer times=0', of_group) END AS gone,
        concat_ws(', ',
            CASE
                WHEN use = 'ddp' AND sent > 1 THEN format('no_sync in all but the last of {} backward passes', sent)
                WHEN sent > 1 THEN format('gradients reduced in the last of {} backward passes alone', sent)
                WHEN use = 'ddp' AND is_there THEN 'more micro-batches per step'
                WHEN use = 'ddp' THEN 'gradient accumulation with no_sync'
                WHEN use = 'gradients' THEN 'gradient accumulation'
                WHEN use IN ('fsdp', 'sharded') THEN 'shards within a node only, fewer gathers'
                WHEN use = 'pp' THEN 'stages cut where activations are small'
                ELSE 'groups within a node'
            END,
            CASE WHEN is_short THEN NULL WHEN use IN ('ddp', 'gradients') THEN 'gradients in lower precision' ELSE 'lower precision' END,
            CASE WHEN use = 'fsdp' THEN 'larger batches' END) AS ways
    FROM of_types CROSS JOIN accumulation CROSS JOIN ddp LEFT JOIN again USING (use)
)
SELECT
    use,
    CASE WHEN use = 'buffers' THEN 'DDP sends buffers of one rank to the others before each forward pass'
        ELSE format('{} reduces gradients in each of {} backward passes of an update, where the last is enough', upper(use), sent) END AS again,
    CASE WHEN use = 'buffers' THEN 'DDP: broadcast_buffers=False, if ranks may keep buffers of their own, as statistics of BatchNorm'
        ELSE format('{}: run all but the last of the {} backward passes of an update', upper(use), sent)
            || CASE use WHEN 'ddp' THEN ', with their forward passes, inside no_sync()' ELSE ' with set_requires_gradient_sync(False), if memory holds gradients that are not sharded' END END AS once,
    gone,
    CASE use WHEN 'ddp' THEN 'DDP ' WHEN 'gradients' THEN 'data-parallel ' WHEN 'fsdp' THEN 'FSDP ' WHEN 'optimizer' THEN 'optimizer ' WHEN 'sharded' THEN 'sharding ' WHEN 'buffers' THEN 'DDP buffer ' WHEN 'tp' THEN 'tensor-parallel '
        WHEN 'all_to_all' THEN 'all_to_all ' WHEN 'pp' THEN 'pipeline ' ELSE '' END AS kind,
    ways,
    CASE use
        WHEN 'ddp' THEN format('DDP: send less ({})', ways)
        WHEN 'fsdp' THEN format('FSDP: send less ({})', ways)
        WHEN 'optimizer' THEN 'The optimizer''s own gathers, scatters and broadcasts: fewer and larger ones, lower precision, overlapped with the update of other parameters'
        WHEN 'sharded' THEN format('Gathers and scatters of shards: send less ({})', ways)
        WHEN 'tp' THEN 'Tensor parallelism: fewer ranks per group, all within a node, or transfers in chunks overlapped with the matrix products (async TP): see tp'
        WHEN 'all_to_all' THEN 'all_to_all of experts or sequences: ' || ways
        WHEN 'pp' THEN format('Pipeline: fewer or smaller messages ({}): see pipeline', ways)
        WHEN 'buffers' THEN once
        ELSE format('Send less ({})', ways)
    END AS advice,
    CASE use
        WHEN 'ddp' THEN 'DDP: fewer calls (gradient accumulation with no_sync, larger buckets)'
        WHEN 'gradients' THEN 'Sum gradients up in fewer, larger tensors'
        WHEN 'fsdp' THEN 'FSDP: larger units, larger batches'
        WHEN 'sharded' THEN 'Gather and scatter larger shards'
        -- every layer has its own, every micro-batch too: only more work for each makes them fewer
        WHEN 'tp' THEN 'Tensor parallelism needs them in every layer: larger batches, or fewer ranks per group (see tp)'
        WHEN 'pp' THEN 'Pipeline: fewer and larger micro-batches, or fewer stages (see pipeline)'
        WHEN 'all_to_all' THEN 'Exchanges of experts or sequences: larger batches, or fewer ranks per group'
        WHEN 'unknown' THEN 'Make fewer calls, or not in every step'
        ELSE advice
    END AS fewer
FROM ways
