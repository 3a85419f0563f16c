-- What is said of one operation or collective.

-- query: op_gpu
SELECT * FROM gpu_ops WHERE rank = $rank AND op_id = $id

-- query: op_host
SELECT * FROM host_ops WHERE rank = $rank AND op_id = $id

-- query: op_launch
-- The call that launched an operation, where it lies.
SELECT op_id AS id, rank, name, kind, start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, duration_ns
FROM host_ops
WHERE rank = $rank AND op_id = $id

-- query: op_launched
-- What a call launched, at most 20 operations.
SELECT op_id AS id, rank, name, start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, duration_ns
FROM gpu_ops
WHERE rank = $rank AND launch_op_id = $id
ORDER BY start_ns
LIMIT 20

-- query: op_calls
-- The collectives that an operation carries: what its rank knows of them.
SELECT k.collective_id, k.op, k.group_id, g.description AS group_name, k.dtype, k.bytes, k.seq, k.match, k.peer
FROM collectives AS k LEFT JOIN groups AS g USING (group_id)
WHERE k.rank = $rank AND $id IN (coalesce(k.gpu_op_id, k.host_op_id), k.receive_op_id)
ORDER BY k.call_id

-- query: op_stack
-- What a thread was in while it did something, innermost first: operators, ranges, Python frames. One pass over the thread, not one per depth.
WITH here AS (
    SELECT tid, depth, start_local_ns, start_local_ns + duration_ns AS end_local_ns FROM host_ops WHERE rank = $rank AND op_id = $id
)
SELECT o.op_id AS id, o.rank, o.name, o.kind, o.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, o.duration_ns
FROM host_ops AS o JOIN here AS h ON o.tid IS NOT DISTINCT FROM h.tid
WHERE o.rank = $rank AND o.depth < h.depth AND o.start_local_ns <= h.start_local_ns AND o.start_local_ns + o.duration_ns >= h.end_local_ns
ORDER BY o.depth DESC

-- query: instance
SELECT * FROM collective_instances WHERE collective_id = $collective

-- query: members
-- The ranks of one collective, in the order of their arrival. wait_ns: as in collective_waits.
SELECT
    k.rank,
    coalesce(k.gpu_op_id, k.host_op_id) AS id,
    k.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns,
    k.duration_ns,
    w.wait_ns
FROM collectives AS k JOIN collective_waits AS w ON w.collective_id = k.collective_id AND w.rank = k.rank
WHERE k.collective_id = $collective
ORDER BY k.start_ns, k.rank
