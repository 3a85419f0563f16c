-- shared: sending_less | by what a run can send less than it does: not by what it does already
-- grain: one row per use of communication
-- needs: ref('exposed_calls')
-- column: use VARCHAR | as in exposed_calls
-- column: kind VARCHAR | the use before the word communication, with a blank behind it
-- column: ways VARCHAR | in words
-- column: advice VARCHAR | the same as a sentence
WITH forwards AS (
    SELECT rank, start_ns, lead(start_ns) OVER (PARTITION BY rank, pid ORDER BY start_ns) AS next_ns
    FROM host_ops
    WHERE name = 'DistributedDataParallel.forward'
),
-- of several backward passes gradients are summed up before they are sent, if one has sent none before the next forward pass
accumulation AS (
    SELECT count(*) > 0 AS is_there
    FROM forwards AS f
    ASOF JOIN (
        SELECT rank, start_ns FROM host_ops WHERE name IN (SELECT name FROM tw_range_names WHERE autograd = 'gradient') AND EXISTS (FROM forwards)
    ) AS g ON g.rank = f.rank AND g.start_ns >= f.start_ns
    ASOF LEFT JOIN (SELECT k.rank, i.asked_ns FROM tw_collective_issue() AS i JOIN collectives AS k USING (call_id) WHERE i.asked_by = 'gradient') AS s
        ON s.rank = f.rank AND s.asked_ns >= f.start_ns
    WHERE g.start_ns < f.next_ns AND coalesce(s.asked_ns >= f.next_ns, TRUE)
),
-- each type is looked up once
types AS (
    SELECT dtype, CAST({{ names('element_types', 'lower(dtype)') }} AS INTEGER) AS bytes FROM (SELECT DISTINCT dtype FROM collectives)
),
sent AS (
    SELECT e.use, coalesce(2 * sum(k.duration_ns) FILTER (WHERE t.bytes <= 2) >= sum(k.duration_ns), FALSE) AS is_short
    FROM {{ ref('exposed_calls') }} AS e JOIN collectives AS k USING (call_id) LEFT JOIN types AS t USING (dtype)
    GROUP BY e.use
),
ways AS (
    SELECT
        use,
        concat_ws(', ',
            CASE
                WHEN use = 'ddp' AND is_there THEN 'more micro-batches per step'
                WHEN use = 'ddp' THEN 'gradient accumulation with no_sync'
                WHEN use = 'gradients' THEN 'gradient accumulation'
                WHEN use IN ('fsdp', 'sharded') THEN 'shards within a node only, fewer gathers'
                WHEN use = 'pp' THEN 'stages cut where activations are small'
                ELSE 'groups within a node'
            END,
            CASE WHEN is_short THEN NULL WHEN use IN ('ddp', 'gradients') THEN 'gradients in lower precision' ELSE 'lower precision' END,
            CASE WHEN use = 'fsdp' THEN 'larger batches' END) AS ways
    FROM sent CROSS JOIN accumulation
)
SELECT
    use,
    CASE use WHEN 'ddp' THEN 'DDP ' WHEN 'gradients' THEN 'data-parallel ' WHEN 'fsdp' THEN 'FSDP ' WHEN 'optimizer' THEN 'optimizer ' WHEN 'sharded' THEN 'sharding ' WHEN 'tp' THEN 'tensor-parallel '
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
        ELSE format('Send less ({})', ways)
    END AS advice
FROM ways
