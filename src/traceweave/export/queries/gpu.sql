-- The GPU ops of one rank. launch_delay_ns: from the start of the launching call to the start of the op. flow_ids: the
-- arrows through the op, see packets.py.
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    o.name,
    o.category,
    o.op_id,
    o.step,
    o.start_local_ns - h.start_local_ns AS launch_delay_ns,
    coalesce(c.bytes, o.bytes) AS bytes,
    c.collective_id,
    c.op,
    c."group",
    c.dtype,
    c.seq,
    c.match,
    c.wait_ns,
    c.last_rank,
    list_concat(c.collective_ids, CASE WHEN $host AND h.op_id IS NOT NULL THEN [h.op_id + $launch_flow] END) AS flow_ids
FROM gpu_ops AS o
JOIN export_tracks AS t
    ON t.kind = 'stream' AND t.rank = o.rank
    AND t.pid IS NOT DISTINCT FROM o.device AND t.number IS NOT DISTINCT FROM o.stream
LEFT JOIN host_ops AS h ON h.op_id = o.launch_op_id AND h.rank = $rank
LEFT JOIN export_calls AS c ON c.op_id = o.op_id AND c.rank = o.rank
WHERE o.rank = $rank
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC, o.op_id
