-- The host ops of one rank, or (rank NULL) of the processes that are no rank.
SELECT
    t.track,
    o.start_ns,
    o.end_ns,
    o.name,
    o.kind AS category,
    o.op_id,
    o.step,
    c.bytes,
    c.collective_id,
    c.op,
    c."group",
    c.dtype,
    c.seq,
    c.match,
    c.wait_ns,
    c.last_rank,
    list_concat(c.collective_ids, CASE WHEN l.launch_op_id IS NOT NULL THEN [l.launch_op_id + $launch_flow] END) AS flow_ids
FROM host_ops AS o
JOIN export_tracks AS t
    ON t.kind = 'thread' AND t.rank IS NOT DISTINCT FROM o.rank
    AND t.pid IS NOT DISTINCT FROM o.pid AND t.number IS NOT DISTINCT FROM o.tid
LEFT JOIN (
    SELECT DISTINCT launch_op_id FROM gpu_ops WHERE rank = $rank AND launch_op_id IS NOT NULL
) AS l ON l.launch_op_id = o.op_id
LEFT JOIN export_calls AS c ON c.op_id = o.op_id AND c.rank = o.rank
WHERE o.rank IS NOT DISTINCT FROM CAST($rank AS INTEGER)
    AND ($steps IS NULL OR list_contains($steps, o.step))
    AND ($from_ns IS NULL OR o.end_ns > $from_ns OR o.start_ns >= $from_ns)
    AND ($to_ns IS NULL OR o.start_ns < $to_ns)
ORDER BY t.track, o.start_ns, o.end_ns DESC, o.op_id
