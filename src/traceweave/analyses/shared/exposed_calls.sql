-- shared: exposed_calls | collectives within the time budget: what of them no compute hides, and what they are for
-- grain: one row per rank and collective
-- needs: ref('exposed_comm')
-- param: forward_share
-- column: rank INTEGER | this and the following, up to is_staged, as in exposed_comm
-- column: step BIGINT | step in which it was issued
-- column: op VARCHAR | which operation
-- column: group_id INTEGER | process group
-- column: bytes BIGINT | size
-- column: collective_id BIGINT | the same value on all ranks of one instance
-- column: call_id BIGINT | as in collectives
-- column: duration_ns BIGINT | length
-- column: wait_ns BIGINT | the wait without any clock
-- column: exposed_ns BIGINT | how much of it no compute ran
-- column: exposed_wait_ns BIGINT | of its first wait_ns
-- column: exposed_transfer_ns BIGINT | of the rest
-- column: late_rank INTEGER | the rank that started last
-- column: late_ns BIGINT | what it alone was late, as far as no compute ran
-- column: is_staged BOOLEAN | between stages of a pipeline
-- column: windows BIGINT | steps of the rank
-- column: is_p2p BOOLEAN | a send or recv
-- column: is_blocking BOOLEAN | compute has to wait for its result: it carries activations, or the host of a rank reads it
-- column: is_read BOOLEAN | the host reads its result, or waits in it, in every step (`always_read`), as read_sum says
-- column: use VARCHAR | what it is for: 'ddp', 'gradients' (sums of a data parallel group in a program that runs no DDP), 'fsdp' (issued inside its ranges), 'optimizer' (issued inside Optimizer.step), 'sharded' (gathers and scatters of a data parallel group), 'buffers' (broadcasts in the forward pass of DDP), 'tp', 'pp', 'all_to_all' or 'unknown'
-- column: is_sent BOOLEAN | late_rank is its root, as of a broadcast: what comes late is what that rank sends
-- column: is_start BOOLEAN | its waiting mirrors how unevenly the recording began
-- column: bare_ns BIGINT | exposed for another reason than waiting, as far as the traces tell; of messages of a pipeline whose other side is not known, nothing
-- column: lacks_ranks BOOLEAN | not all ranks of the group are seen in it: who is not seen may have come last
-- column: is_unsplit BOOLEAN | all of them are seen, but its operation does not make ranks wait for all others (broadcast, scatter and the like): whom it waits for, and how long, is not known, or not of all of it
-- column: is_recorded BOOLEAN | all ranks of the group were recorded, and of the job where the group is not known
WITH
-- Groups whose collectives are in the forward pass carry activations, as in tensor and expert parallelism. (All-gathers
-- of parameters, as in FSDP, are there too, but can be started earlier.)
backward_starts AS (
    SELECT rank, step, min(start_ns) AS start_ns
    FROM host_ops
    WHERE name IN (SELECT name FROM tw_range_names WHERE autograd IS NOT NULL)
    GROUP BY rank, step
    -- a batch of an inference engine is a forward pass, and nothing else
    UNION ALL SELECT rank, step, end_ns AS start_ns FROM steps WHERE source = 'engine'
),
blocking AS MATERIALIZED (
    SELECT k.group_id
    FROM collectives AS k
    JOIN tw_issued AS h USING (call_id)
    JOIN backward_starts AS s ON s.rank = k.rank AND s.step IS NOT DISTINCT FROM k.step
    WHERE k.op IN ('all_reduce', 'reduce_scatter', 'all_to_all', 'dispatch', 'combine')
    GROUP BY k.group_id
    HAVING sum(k.bytes) FILTER (WHERE h.start_ns < s.start_ns) >= {{ param('forward_share') }} * sum(k.bytes)
),
-- where nothing is gathered, as of NO_SHARD and replicate, FSDP shards nothing
sharding AS MATERIALIZED (
    SELECT call_id, bool_or(k.op <> 'all_reduce') OVER () AS is_sharded
    FROM tw_issued_within('sharding') JOIN collectives AS k USING (call_id)
),
-- and so do those that a function of either pass asks for itself (SyncBatchNorm): gradients go when they are summed up
functions AS MATERIALIZED (
    SELECT call_id, is_forward
    FROM (SELECT call_id, TRUE AS is_forward FROM tw_issued_within('forward') UNION ALL SELECT call_id, FALSE FROM tw_issued_within('backward'))
    WHERE call_id NOT IN (SELECT call_id FROM tw_collective_issue() WHERE asked_by = 'gradient')
        AND call_id NOT IN (SELECT call_id FROM sharding)
),
-- DDP marks its forward pass, and what shares its reducer (replicate) copies and scales gradients, wherever operators are recorded
ddp AS (
    SELECT
        NOT EXISTS (FROM host_ops WHERE kind = 'op') OR EXISTS (
            FROM tw_range_names
            WHERE name = 'DistributedDataParallel.forward' OR contains(name, 'distributed::reducer::') OR contains(name, 'distributed.ddp.reducer::')
        ) AS may_be_ddp
),
-- what the thread of the forward pass sums up outside the backward is no gradient of a DDP that reduces its own there (a loss, metrics)
sums AS MATERIALIZED (
    SELECT i.call_id
    FROM (
        SELECT a.*, k.rank, bool_or(a.asked_by = 'gradient') OVER (PARTITION BY k.rank, k.group_id) AS has_gradients
        FROM tw_collective_issue() AS a JOIN collectives AS k USING (call_id)
        WHERE k.op = 'all_reduce'
    ) AS i
    SEMI JOIN host_ops AS h ON h.name = 'DistributedDataParallel.forward' AND h.rank = i.rank AND coalesce(h.pid, -1) = i.pid AND coalesce(h.tid, -1) = i.tid
    WHERE i.has_gradients AND i.asked_by IS NULL
),
-- no parameters: whole numbers, and objects, of which the sizes are gathered first
objects AS MATERIALIZED (
    SELECT call_id
    FROM (SELECT call_id, rank, group_id, dtype IN ('Long', 'long int') AS is_whole FROM collectives WHERE op = 'all_gather' AND dtype IN ('Long', 'long int', 'Byte', 'unsigned char'))
    QUALIFY is_whole OR 2 * count(*) FILTER (is_whole) OVER (PARTITION BY rank, group_id) = count(*) OVER (PARTITION BY rank, group_id)
),
-- neighbouring ranks alone are too little to tell tensor parallelism from a data parallel group within a node
recorded AS MATERIALIZED (
    SELECT g.group_id, g.size = count(r.rank) AS is_recorded
    FROM (SELECT group_id, size, unnest(ranks) AS rank FROM groups) AS g LEFT JOIN ranks AS r USING (rank)
    GROUP BY g.group_id, g.size
),
uses AS MATERIALIZED (
    SELECT group_id, used_for FROM tw_group_roles(NULL, NULL) WHERE NOT starts_with(used_source, 'ranks: ')
)
SELECT
    e.rank,
    e.step,
    e.op,
    e.group_id,
    e.bytes,
    e.collective_id,
    e.call_id,
    e.duration_ns,
    e.wait_ns,
    e.exposed_ns,
    e.exposed_wait_ns,
    e.exposed_transfer_ns,
    e.late_rank,
    e.late_ns,
    e.is_staged,
    r.windows,
    e.op IN ('send', 'recv') AS is_p2p,
    coalesce(u.used_for, 'unknown') = 'tp' OR k.group_id IS NOT NULL OR f.call_id IS NOT NULL OR w.collective_id IS NOT NULL AS is_blocking,
    v.op IS NOT NULL AS is_read,
    CASE
        WHEN e.is_staged THEN 'pp'
        WHEN e.call_id IN (SELECT call_id FROM tw_issued_within('optimizer')) THEN 'optimizer'
        WHEN e.op IN ('all_gather', 'reduce_scatter') AND h.call_id IS NOT NULL OR e.op = 'all_reduce' AND h.is_sharded AND a.asked_by = 'gradient' THEN 'fsdp'
        WHEN u.used_for = 'dp' AND e.op = 'all_reduce' AND f.call_id IS NULL AND e.call_id NOT IN (SELECT call_id FROM sums) THEN CASE WHEN d.may_be_ddp THEN 'ddp' ELSE 'gradients' END
        WHEN u.used_for = 'dp' AND e.op IN ('all_gather', 'reduce_scatter') AND f.call_id IS NULL AND w.collective_id IS NULL AND e.call_id NOT IN (SELECT call_id FROM objects) THEN 'sharded'
        WHEN u.used_for = 'tp' THEN 'tp'
        WHEN e.op = 'broadcast' AND f.is_forward THEN 'buffers'
        WHEN e.op IN ('all_to_all', 'dispatch', 'combine') THEN 'all_to_all'
        ELSE 'unknown'
    END AS use,
    e.late_rank = i.root AS is_sent,
    e.collective_id IN (SELECT collective_id FROM {{ ref('starts') }}) AS is_start,
    CASE WHEN e.wait_ns IS NULL AND e.is_staged AND e.op IN ('send', 'recv') THEN 0 ELSE e.exposed_ns - coalesce(e.exposed_wait_ns, 0) END AS bare_ns,
    e.collective_id IS NULL OR i.complete IS FALSE AS lacks_ranks,
    NOT lacks_ranks AND e.exposed_transfer_ns IS NULL AND i.ranks_expected > 1 AS is_unsplit,
    coalesce(o.is_recorded, (SELECT count(*) = max(world_size) FROM ranks), FALSE) AS is_recorded
FROM {{ ref('exposed_comm') }} AS e
JOIN {{ ref('budget') }} AS r ON r.rank = e.rank AND r.step IS NOT DISTINCT FROM e.step
CROSS JOIN ddp AS d
LEFT JOIN collective_instances AS i ON i.collective_id = e.collective_id
LEFT JOIN blocking AS k ON k.group_id = e.group_id
LEFT JOIN functions AS f ON f.call_id = e.call_id AND (e.op = 'all_reduce' OR f.is_forward AND e.op IN ('all_gather', 'broadcast'))
LEFT JOIN sharding AS h ON h.call_id = e.call_id
-- who sends what others read has nothing to read, and is held to it as they are
LEFT JOIN (SELECT DISTINCT collective_id FROM {{ ref('read_calls') }}) AS w ON w.collective_id = e.collective_id
-- of a message one rank has a send, the other a recv
LEFT JOIN (SELECT DISTINCT op, group_id FROM {{ ref('always_read') }}) AS v ON w.collective_id IS NOT NULL AND v.op = e.op AND v.group_id IS NOT DISTINCT FROM e.group_id
LEFT JOIN tw_collective_issue() AS a ON a.call_id = e.call_id
LEFT JOIN uses AS u ON u.group_id = e.group_id
LEFT JOIN recorded AS o ON o.group_id = e.group_id
