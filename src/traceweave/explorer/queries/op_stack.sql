-- What a thread was in while it did something, innermost first: operators, ranges, Python frames. One pass over the thread, not one per depth.
WITH here AS (
    SELECT tid, depth, start_local_ns, start_local_ns + duration_ns AS end_local_ns FROM host_ops WHERE rank = $rank AND op_id = $id
)
SELECT o.op_id AS id, o.rank, o.name, o.kind, o.start_ns - (SELECT origin_ns FROM memory.explorer.origin) AS start_ns, o.duration_ns
FROM host_ops AS o JOIN here AS h ON o.tid IS NOT DISTINCT FROM h.tid
WHERE o.rank = $rank AND o.depth < h.depth AND o.start_local_ns <= h.start_local_ns AND o.start_local_ns + o.duration_ns >= h.end_local_ns
ORDER BY o.depth DESC
